"""Values and named tuples: what `dataclasses` and `typing` promise of theirs, ours keep."""

import copy
import pickle
from typing import Any

import pytest

from cronce.value import NamedTuple, Value


class Held(Value):
    """Another's."""

    by: str
    until: int | None = None


class Kept(Value):
    by: str
    until: int | None = None


class Nothing(Value):
    """No fields at all."""


class Route(Value):
    """As a schedule is: what is written is tidied, and what follows from it is worked out once."""

    text: str
    _stops: tuple[str, ...]

    def __init__(self, text: str) -> None:
        self._fill(text.upper())
        object.__setattr__(self, "_stops", tuple(self.text.split("-")))

    @property
    def stops(self) -> tuple[str, ...]:
        return self._stops


class Detour(Route):
    """More of the same, under another name."""


class Longer(Held):
    reason: str = ""


# --- values ---------------------------------------------------------------------------------------------------------


def test_a_value_is_made_by_place_by_name_and_by_default() -> None:
    assert [(made.by, made.until) for made in (Held("ada", 3), Held("ada", until=3), Held(until=3, by="ada"))] == [
        ("ada", 3)
    ] * 3
    assert Held("ada").until is None
    assert Held(by="ada") == Held("ada", None)


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), (("ada", 1, 2), {}), (("ada",), {"by": "ada"}), (("ada",), {"since": 1}), ((), {"until": 1})],
)
def test_what_does_not_fit_is_refused_and_the_fields_are_named(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Held takes \(by, until\)"):
        Held(*given, **named)


def test_values_are_equal_by_what_they_hold() -> None:
    assert Held("ada", 3) == Held("ada", 3)
    assert Held("ada", 3) != Held("ada", 4)
    assert len({Held("ada", 3), Held("ada", 3), Held("bob", 3)}) == 2
    assert Nothing() == Nothing()


def test_values_of_two_kinds_are_never_equal() -> None:
    assert Held("ada", 3) != Kept("ada", 3)
    assert Held("ada", 3) != ("ada", 3)
    assert Longer("ada", 3) != Held("ada", 3)


def test_a_value_shows_its_kind_and_its_fields() -> None:
    assert repr(Held("ada")) == "Held(by='ada', until=None)"
    assert repr(Nothing()) == "Nothing()"


@pytest.mark.parametrize("name", ["by", "other"])
def test_a_value_does_not_change(name: str) -> None:
    held = Held("ada", 3)
    with pytest.raises(AttributeError, match="a Held does not change"):
        setattr(held, name, "bob")
    with pytest.raises(AttributeError, match="a Held does not change"):
        delattr(held, name)
    assert held == Held("ada", 3)


def test_a_value_has_slots_and_nothing_else() -> None:
    assert not hasattr(Held("ada"), "__dict__")
    assert not hasattr(Longer("ada"), "__dict__")


def test_a_value_is_matched_by_place() -> None:
    match Held("ada", 3):
        case Held(by, until):
            assert (by, until) == ("ada", 3)
    assert Held.__match_args__ == ("by", "until")
    assert Nothing.__match_args__ == ()


def test_a_kind_may_tidy_what_it_is_given_and_keep_what_follows() -> None:
    route = Route("a-b")
    assert (route.text, route.stops) == ("A-B", ("A", "B"))
    assert route == Route("A-B")
    assert hash(route) == hash(Route("A-B"))
    object.__setattr__(route, "_stops", ())
    assert route == Route("A-B"), "what is kept beside it is not compared"
    assert repr(route) == "Route(text='A-B')"
    assert [*Route.__match_args__] == ["text"]


def test_a_kind_may_have_kinds_of_its_own() -> None:
    assert repr(Longer("ada", reason="rain")) == "Longer(by='ada', until=None, reason='rain')"
    detour: Route = Detour("a-b")  # type: ignore[call-arg]  # to a type checker `_stops` is an argument of it
    assert (detour.stops, detour == Route("a-b")) == (("A", "B"), False)


@pytest.mark.parametrize("value", [Held("ada", 3), Nothing(), Route("a-b"), Longer("ada")])
def test_copies_of_a_value_are_equal_to_it(value: Value) -> None:
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert other == value
        assert repr(other) == repr(value)


def test_a_copy_has_what_is_kept_beside_the_fields() -> None:
    assert copy.deepcopy(Route("a-b")).stops == ("A", "B")
    assert pickle.loads(pickle.dumps(Route("a-b"))).stops == ("A", "B")


# --- named tuples ---------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A cell."""

    key: str
    version: int = 0
    until: int | None = None

    @property
    def is_there(self) -> bool:
        return self.version > 0


class Settle(NamedTuple):
    """No fields at all."""


class Row(Cell):
    """A cell by another name."""


def test_a_named_tuple_is_a_tuple_with_names() -> None:
    cell = Cell("a", until=3)
    key, version, until = cell
    assert (key, version, until) == (cell.key, cell.version, cell[2]) == ("a", 0, 3)
    assert not cell.is_there
    assert hash(cell) == hash(("a", 0, 3))
    assert Cell("a") < Cell("b")
    assert Cell("a", until=3) == ("a", 0, 3)
    assert Settle() == ()


def test_a_named_tuple_tells_its_fields() -> None:
    assert Cell._fields == Cell.__match_args__ == ("key", "version", "until")
    assert Cell._field_defaults == {"version": 0, "until": None}
    assert Cell("a")._asdict() == {"key": "a", "version": 0, "until": None}
    assert (repr(Cell("a")), repr(Settle())) == ("Cell(key='a', version=0, until=None)", "Settle()")
    assert Cell.__doc__ == "A cell."


def test_a_named_tuple_is_made_from_another_or_from_values() -> None:
    assert Cell("a")._replace(version=2) == Cell("a", 2)
    assert Cell._make(["a", 2, 3]) == Cell("a", 2, 3)
    assert type(Row("a")._replace(version=2)) is Row
    with pytest.raises(ValueError, match="Cell has no color"):
        Cell("a")._replace(color=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "named", "text"),
    [
        ((), {}, r"Cell.__new__\(\) missing 1 required positional argument: 'key'"),
        (("a", 1, 2, 3), {}, "takes from 2 to 4 positional arguments"),
        (("a",), {"key": "b"}, "multiple values for argument 'key'"),
        (("a",), {"color": 1}, "unexpected keyword argument 'color'"),
    ],
)
def test_a_wrong_call_is_refused_as_any_is(given: tuple[Any, ...], named: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Cell(*given, **named)


def test_a_named_tuple_does_not_change() -> None:
    for name in ("key", "color"):
        with pytest.raises(AttributeError):
            setattr(Cell("a"), name, "b")


def test_what_inherits_from_a_named_tuple_is_an_ordinary_class() -> None:
    """Whichever of the two is made first: the constructor of the one is not that of the other."""

    class Pair(NamedTuple):
        left: int
        right: int = 0

    class Couple(Pair):
        """A pair of people."""

    assert [type(made) for made in (Couple(1), Pair(1), Couple(1))] == [Couple, Pair, Couple]
    assert Couple(1) == Pair(1) == (1, 0)


@pytest.mark.parametrize("made", [Cell("a", 2), Settle(), Row("a")])
def test_copies_of_a_named_tuple_are_equal_to_it(made: tuple[Any, ...]) -> None:
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (other, type(other)) == (made, type(made))


def test_annotations_may_come_from_a_function_as_they_do_since_python_3_14() -> None:
    body = {"__annotate_func__": lambda _format: {"by": str, "until": int}, "until": 3}
    bases: tuple[Any, ...] = (Value, NamedTuple)
    for base in bases:
        made = type(base)("Held", (base,), dict(body))("ada")
        assert (made.by, made.until, repr(made)) == ("ada", 3, "Held(by='ada', until=3)")

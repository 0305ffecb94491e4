"""Frozen records that cost little to define: under cron every run of a job starts an interpreter.

A `Value` is what `@dataclass(frozen=True, slots=True)` makes: it has slots, and is equal only to its own kind. But to
import `dataclasses`, and to let it write the source of each class, takes longer than the interpreter's own start.

A `NamedTuple` is `typing.NamedTuple`, and to a type checker just that. But its constructor is compiled when it has been
called often, not with the class: compiling one takes 35 µs or more, and a start needs fifty, most a few times.
"""

import collections
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, NoReturn, Self, dataclass_transform

__all__ = ["NamedTuple", "Value"]


def _completed(
    fields: tuple[str, ...], defaults: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...] | None:
    """The arguments in the order of the fields, with the default of each that was left out; None: they do not fit."""
    missing = fields[len(given) :]
    known = {**defaults, **named} if named else defaults
    found = (*given, *[known[field] for field in missing if field in known])
    return found if len(found) == len(fields) and (not named or named.keys() <= {*missing}) else None


# --- values ---------------------------------------------------------------------------------------------------------


class _Kind(type):
    """What makes the classes of values: annotations become slots, and slots must be known before there is a class."""

    _puts: tuple[Any, ...]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "_Kind":
        if not bases:
            return super().__new__(cls, name, bases, namespace)
        body = _body(bases[0], namespace)
        kind = super().__new__(cls, name, bases, body)
        kind._puts = tuple([getattr(kind, field).__set__ for field in body["__match_args__"]])
        return kind


def _body(base: Any, namespace: dict[str, Any]) -> dict[str, Any]:
    """The namespace of a kind to be: what its annotations say, beside what its base has."""
    fields = _annotated(namespace)
    defaults = {field: namespace.pop(field) for field in fields if field in namespace}
    arguments = [field for field in fields if not field.startswith("_")]
    return {
        **namespace,
        "__slots__": fields,
        "__match_args__": (*base.__match_args__, *arguments),
        "_defaults": {**base._defaults, **defaults},
    }


def _annotated(namespace: dict[str, Any]) -> tuple[str, ...]:
    """The names annotated in the body of a class. From Python 3.14 on it has a function that gives the annotations."""
    annotate = namespace.get("__annotate_func__")
    return tuple(annotate(1) if annotate else namespace.get("__annotations__", ()))


@dataclass_transform(frozen_default=True)
class Value(metaclass=_Kind):
    """The base of all kinds. Each annotation of a kind is a field; what stands behind it is the default.

    A field whose name begins with an underscore is kept with a value and is no part of it: no argument, neither
    compared nor shown. Its class has an `__init__` of its own, and sets it there."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _puts: ClassVar[tuple[Any, ...]] = ()

    def _fill(self, *given: Any, **named: Any) -> None:
        if named or len(given) != len(self._puts):
            given = self._complete(given, named)
        for put, value in zip(self._puts, given):  # noqa: B905  as many as there are; strict=True is half of the cost
            put(self, value)

    if not TYPE_CHECKING:  # where types are checked, each kind has the arguments that its annotations say
        __init__ = _fill

    def _complete(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        fields = self.__match_args__
        found = _completed(fields, self._defaults, given, named)
        if found is None:
            raise TypeError(
                f"{type(self).__qualname__} takes ({', '.join(fields)}), and was given {len(given)} and {[*named]}"
            )
        return found

    def _key(self) -> tuple[Any, ...]:
        return tuple([getattr(self, part) for part in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Value) and type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        shown = [f"{part}={getattr(self, part)!r}" for part in self.__match_args__]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: Never) -> NoReturn:
        raise AttributeError(f"a {type(self).__qualname__} does not change: make another with the {name} you want")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__qualname__} does not change: its {name} stays")

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """How pickle and copy fill the slots of another."""
        for field, value in state[1].items():
            object.__setattr__(self, field, value)


# --- named tuples ---------------------------------------------------------------------------------------------------


_FIRST_CALLS: Final = 25
"""So many calls without a constructor of its own cost a class as much more as it costs to compile one: a call takes
1.7 µs then, and 0.4 µs with it."""

_part: Final = getattr(collections, "_tuplegetter", lambda place, _doc: property(itemgetter(place)))
"""How a part is read: as `namedtuple` does it, a third faster than a property."""


class _Named(type):
    """What makes the classes of named tuples."""

    _fields: tuple[str, ...]
    _field_defaults: dict[str, Any]
    _places: dict[str, int]
    _first_calls: int

    def __new__(cls, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> "_Named":
        if getattr(bases[0], "_fields", ()):  # what inherits from a named tuple is an ordinary class
            return super().__new__(cls, name, bases, namespace)
        fields = _annotated(namespace)
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        parts = {field: _part(place, None) for place, field in enumerate(fields)}
        kind = super().__new__(cls, name, bases, {**namespace, **parts, "__slots__": (), "__match_args__": fields})
        kind._fields, kind._field_defaults, kind._first_calls = fields, defaults, _FIRST_CALLS
        kind._places = {field: place for place, field in enumerate(fields)}
        return kind


class _Tuple(tuple[Any, ...], metaclass=_Named):
    """The base of all named tuples."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """The first calls of a class. From then on it has a constructor of its own, as fast as they come; so it has
        once the arguments do not fit, and that raises what Python would."""
        cls._first_calls -= 1
        found = _completed(cls._fields, cls._field_defaults, given, named) if cls._first_calls > 0 else None
        if found is not None:
            return tuple.__new__(cls, found)
        fields = ", ".join(cls._fields)
        source = f"lambda _cls, {fields}: _new(_cls, ({fields}{',' if fields else ''}))"
        constructor = eval(source, {"_new": tuple.__new__})  # noqa: S307  the fields of our own classes
        constructor.__qualname__ = f"{cls.__qualname__}.__new__"
        constructor.__defaults__ = tuple(cls._field_defaults.values())
        cls.__new__ = constructor  # type: ignore[method-assign]
        made: Self = constructor(cls, *given, **named)
        return made

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        return cls(*values)

    def _replace(self, **changes: Any) -> Self:
        kind, parts = type(self), list(self)
        places = kind._places
        try:
            for field, value in changes.items():
                parts[places[field]] = value
        except KeyError:
            unknown = ", ".join(field for field in changes if field not in places)
            raise ValueError(f"{kind.__name__} has no {unknown}") from None
        made: Self = tuple.__new__(kind, parts)
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(type(self)._fields, self, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in self._asdict().items())})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        """How pickle and copy make another."""
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _Tuple

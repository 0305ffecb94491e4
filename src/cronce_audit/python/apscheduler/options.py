"""Options that are set in several places: as keywords, in a dict, in a call of `configure`."""

from collections.abc import Sequence
from typing import NamedTuple

from cronce_audit.python.facts import UNKNOWN, Called, Const, Table, Value
from cronce_audit.python.names import Names

_PREFIX = "apscheduler."


class Options(NamedTuple):
    """What is set, and whether that is all."""

    pairs: tuple[tuple[str, Value], ...] = ()
    open: bool = False
    """More may be set than is seen."""

    def get(self, key: str) -> Value | None:
        """None if it is not set, UNKNOWN if that cannot be told."""
        for name, value in reversed(self.pairs):
            if name == key:
                return value
        return UNKNOWN if self.open else None

    def below(self, key: str) -> "Options":
        """What is set in the dict that an option is, and under its dotted keys: `jobstores.default`."""
        dotted = tuple(
            (name.removeprefix(f"{key}."), value) for name, value in self.pairs if name.startswith(f"{key}.")
        )
        whole = self.get(key)
        if whole is None:
            return Options(dotted)
        inner = of_table(whole)
        return Options((*inner.pairs, *dotted), inner.open)


def of_table(value: Value) -> Options:
    """Of a value that was followed to its origin."""
    if not isinstance(value, Table):
        return Options((), open=True)
    named = tuple(
        (key.value, each) for key, each in value.pairs if isinstance(key, Const) and isinstance(key.value, str)
    )
    return Options(named, value.splat or len(named) < len(value.pairs))


def of_configuring(called: Called, known: Names, near: str) -> Options:
    """Of `BackgroundScheduler({...}, jobstores=...)` and of `configure`, which take the same."""
    pairs = [(key, known.origin(value, near)) for key, value in called.keywords if key not in ("gconfig", "prefix")]
    given = called.args[0] if called.args else called.keyword("gconfig")
    if given is None:
        return Options(tuple(pairs), called.splat)
    table = of_table(known.origin(given, near))
    stripped = [(key.removeprefix(_PREFIX), value) for key, value in table.pairs if key.startswith(_PREFIX)]
    return Options((*stripped, *pairs), called.splat or table.open)


def joined(several: Sequence[Options]) -> Options:
    return Options(tuple(pair for each in several for pair in each.pairs), any(each.open for each in several))


def number(value: Value | None) -> float | None:
    """Of an option that is a number, or a string of digits from an ini file; None where it is none, or unknown."""
    match value:
        case Const(bool()):
            return None
        case Const(int(plain) | float(plain)):
            return plain
        case Const(str(text)) if text.strip().isdigit():
            return int(text)
    return None


def is_false(value: Value | None) -> bool:
    """As APScheduler reads it."""
    match value:
        case Const(bool(plain)):
            return not plain
        case Const(str(text)):
            return text.strip().lower() in ("false", "no", "off", "n", "f", "0")
    return False

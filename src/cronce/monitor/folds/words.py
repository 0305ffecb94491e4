"""How findings count and list."""

from collections.abc import Iterable, Sequence

SHOWN = 3


def counted(number: int, noun: str, *, more: bool = False) -> str:
    """1 slot, 2 slots, 1,000 or more slots."""
    return f"{number:,}{' or more' if more else ''} {noun}{'' if number == 1 and not more else 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(names: Iterable[str]) -> str:
    """a, b, c and 7 more."""
    shown: Sequence[str] = list(names)
    left = len(shown) - SHOWN
    return f"{', '.join(shown[:SHOWN])} and {left:,} more" if left > 0 else ", ".join(shown)

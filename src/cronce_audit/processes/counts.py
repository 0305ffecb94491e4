"""How many: known, known to be several, or not known."""

import re
from typing import Final, NamedTuple


class Count(NamedTuple):
    """At least so many; exactly so many where that is known."""

    least: int
    exact: bool = True

    def times(self, other: "Count") -> "Count":
        return Count(self.least * other.least, self.exact and other.exact)

    @property
    def is_several(self) -> bool:
        return self.least > 1

    def __str__(self) -> str:
        return str(self.least) if self.exact else "several" if self.is_several else "an unknown number of"


ONE: Final = Count(1)
SEVERAL: Final = Count(2, exact=False)
"""One for each processor, whatever is added to it or multiplied: servers have more than one."""
UNKNOWN: Final = Count(1, exact=False)


def count(word: str | None) -> Count:
    """What a word, or an expression, says; None is a number that is not told."""
    if word is not None and re.fullmatch(r"\d{1,4}", word.strip()):
        return Count(max(int(word), 1))
    return SEVERAL if word and re.search(r"nproc|cpu_count|\bauto\b", word) else UNKNOWN

"""A bar on a terminal, nothing anywhere else."""

import sys
from typing import Final

_WIDTH: Final = 30


def bar(what: str, done: int, whole: int) -> None:
    """Draw how far it has come, over the line that was there."""
    if not sys.stderr.isatty() or not whole:
        return
    filled = _WIDTH * done // whole
    end = "\n" if done >= whole else ""
    print(
        f"\r{what:>10} [{'█' * filled}{'·' * (_WIDTH - filled)}] {done:,}/{whole:,}",
        end=end,
        file=sys.stderr,
        flush=True,
    )

"""Words that nobody need take: a full disk, or a reader who has gone, is no reason to leave a run undone."""

import sys

from cronce.runtime.aside import tell


def say(verb: str, text: str) -> None:
    tell(f"cronce {verb}: {text}" if verb else f"cronce: {text}")


def let_go() -> None:
    """What was not taken is none of what ran: Python would try once more, and exit with 120."""
    for name in ("stdout", "stderr"):
        try:
            if (stream := getattr(sys, name)) is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, None)

"""A question to a person at a terminal."""

from cronce.errors import CronceError


def ask(question: str) -> str:
    """The answer, in small letters. Whoever ends the input instead (Ctrl-D) wants nothing done."""
    try:
        return input(question).strip().lower()
    except EOFError:
        print()
        raise CronceError("there was no answer, and nothing was changed") from None

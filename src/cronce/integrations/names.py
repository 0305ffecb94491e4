"""Names of jobs from what others call theirs: the same on every machine, and never two for one."""

from hashlib import sha256
from typing import Final

from cronce.model import check_name

LONGEST: Final = 100


def name_from(text: str) -> str:
    """The text itself where it can be a job's name; else what is left of it, and a digest of what it was."""
    words = "".join(letter if _is_plain(letter) else "-" for letter in text).split("-")
    plain = "-".join(filter(None, words)).strip("-.:")[:LONGEST]
    if plain and plain == text:
        return check_name(text)
    return check_name(f"{plain or 'job'}-{sha256(text.encode()).hexdigest()[:8]}")


def _is_plain(letter: str) -> bool:
    return (letter.isascii() and letter.isalnum()) or letter in "_.:-"

"""What people read is in plain words, and a name means one thing: `texts.py` lists both."""

import re
from pathlib import Path

import pytest

from cronce.cli import UNDER
from tests.house import texts

SPELLED_IN_RECORDS = {"nobody knows whether"}
"""How records begin that other versions of cronce read: these words stay."""
SHELL_SCRIPT = re.compile(r"cronce completion (?:words|for)")
"""What shells source: it calls the older spelling, which other versions know as well."""
CLASSES, CONSTANTS, SMALL_MODULES = 12, 48, 1
"""Names that stand for more than one thing, and modules that hold next to nothing. A number that falls is lowered here;
none may rise."""


def _unused(text: str) -> list[str]:
    return [word for word in texts.UNUSED if re.search(rf"\b{word}\b", text, re.IGNORECASE)]


@pytest.mark.slow
def test_no_text_has_a_word_that_readers_stumbled_over() -> None:
    found = [text for text in texts.texts() if _unused(text.text) and text.text.strip() not in SPELLED_IN_RECORDS]
    assert list(map(str, found)) == []


@pytest.mark.slow
def test_commands_are_spelled_as_they_are_today() -> None:
    """Old spellings work, but the help lists no `cronce effects`."""
    under = {name: first for first, names in UNDER.items() for name in names}
    old = re.compile(rf"\bcronce ({'|'.join((*under, 'drain', 'backfill'))})\b(?! for | {{)")
    shown = [text for text in texts.texts(texts.SOURCE / "cronce") if old.search(text.text)]
    assert [str(text) for text in shown if not SHELL_SCRIPT.search(text.text)] == []


def test_a_text_is_found_in_code_whatever_it_is_spelled_as() -> None:
    source = (
        """x = f"{a} was not run: {b or 'no reason was given'}"; y = "SELECT one FROM two"; 'a docstring of words'"""
    )
    found = sorted(texts.in_code(Path("a.py"), source))
    assert [text.text for text in found] == ["no reason was given", "{} was not run: {}"]


@pytest.mark.slow
def test_names_are_not_used_for_more_things_than_they_were() -> None:
    classes, constants = texts.names()
    counted = (len(texts.repeated(classes)), len(texts.repeated(constants)), len(texts.small_modules()))
    assert counted == (CLASSES, CONSTANTS, SMALL_MODULES)

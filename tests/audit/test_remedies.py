"""What the auditor tells people to type exists: the verbs of cronce, their options, and the pages it points to."""

import re
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from cronce.cli import GIVEN_A_COMMAND, VERBS, parser_of, verb_of
from cronce_audit.model import rules

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/cronce_audit").rglob("*.py"))
PAGES = sorted(Path(str(files("cronce_audit").joinpath("pages"))).glob("*.md"))
SPAN = re.compile(r"`(?P<text>cronce [^`]+)`")
LINE = re.compile(r"(?:^|[ /])(?P<text>cronce (?:exec|deploy|run|audit) .*)$", re.MULTILINE)
"""In a sample: a line of a crontab, a unit, a shell."""
FENCED = re.compile(r"^```.*?\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def _commands() -> Iterator[object]:
    for rule in rules().values():
        yield from (pytest.param(found["text"], id=rule.id) for found in SPAN.finditer(rule.remedy))
    for path in SOURCES:
        text = re.sub(r'"\n\s*f?"', "", path.read_text(encoding="utf-8"))
        yield from (pytest.param(found["text"], id=path.name) for found in SPAN.finditer(text) if "{" not in found[0])
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        spans = list(SPAN.finditer(FENCED.sub("", text)))
        lines = [found for block in FENCED.finditer(text) for found in LINE.finditer(block["text"])]
        yield from (pytest.param(found["text"], id=path.stem) for found in (*spans, *lines))


@pytest.mark.parametrize("text", list(_commands()))
def test_a_command_that_is_recommended_can_be_typed(text: str) -> None:
    typed = shlex.split(text)[1:]
    verb, spelled = verb_of(typed)
    assert verb in VERBS
    words = typed[len(spelled.split()) :]
    if "--" in words and verb in GIVEN_A_COMMAND:
        words = words[: words.index("--")]
    if any(word.startswith("--") for word in words) and "…" not in words[:1]:
        parser_of(verb).parse_args(words)
        return
    with pytest.raises(SystemExit) as over:  # a verb alone, or with dots, names a command and is none
        parser_of(verb).parse_args([*words[:1], "--help"])
    assert over.value.code == 0


def test_each_page_that_is_pointed_to_exists() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (*SOURCES, *PAGES)}
    named = [(name, page) for name, text in texts.items() for page in re.findall(r"\bdocs/[\w/-]+\.md", text)]
    assert named
    assert [(name, page) for name, page in named if not (ROOT / page).is_file()] == []

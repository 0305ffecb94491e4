"""The documentation finds its readers: every page is in the map, short, and in plain words.

`make docs` builds the site, strictly. That takes 12 seconds of a processor, so only `make proof` does it.
"""

import re
from pathlib import Path

import pytest

from tests.house import markdown, texts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ENTRY = re.compile(r"^- \[[^\]]+\]\((?P<path>[^)#:]+\.md)\)", re.MULTILINE)
OF_THE_CODE = {
    "explain/figures.md", "explain/soak.md",
    "reference/api-paths.md", "reference/errors.md", "reference/events.md", "reference/json.md",
    "reference/metrics.md", "reference/misuse.md", "reference/options.md", "reference/python-names.md",
    "reference/rules.md", "reference/translations.md", "requirements.md",
}  # fmt: skip
"""Made of the code, compared with a table there, or a table of evidence: they are as long as what they list."""
DRAWN = re.compile(
    r"<!-- (?:proof|drawn|promises|peers)[^>]*-->.*?<!-- (?:/proof|up to here|promises: end|/peers) -->", re.DOTALL
)
"""A part of a page that is made of the code, or of results."""
LONGEST = 1_200
TOGETHER = 55_000
HIGHLIGHTED = "bash console crontab dockerfile go json python sh sql systemd text toml yaml"


def _name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def _by_hand(page: Path) -> str:
    """The text of a page, without its examples, which run as tests, and without what is made of the code."""
    return markdown.prose(DRAWN.sub(" ", page.read_text(encoding="utf-8")))


def _words(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


WRITTEN = [page for page in PAGES if _name(page) not in OF_THE_CODE]


def test_the_map_lists_every_page_once() -> None:
    listed = ENTRY.findall((DOCS / "index.md").read_text(encoding="utf-8"))
    of_the_project = {f"../{page.name}" for page in ROOT.glob("*.md")} - {"../README.md"}
    assert sorted(listed) == sorted({*map(_name, PAGES), *of_the_project} - {"index.md"})


@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page)) for page in PAGES])
def test_a_page_has_one_title_and_blocks_that_can_be_highlighted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^# .+$", markdown.prose(text), re.MULTILINE)) == 1
    assert text.startswith("# ")
    assert {block.language for block in markdown.blocks(text)} <= {"", *HIGHLIGHTED.split()}


@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page)) for page in WRITTEN])
def test_a_page_is_short_and_in_plain_words(page: Path) -> None:
    text = _by_hand(page)
    assert _words(text) <= LONGEST
    plain = markdown.INLINE_CODE.sub("", text)
    assert [word for word in texts.UNUSED if re.search(rf"\b{word}\b", plain, re.IGNORECASE)] == []


def test_all_pages_together_are_not_too_long() -> None:
    assert sum(_words(_by_hand(page)) for page in WRITTEN) <= TOGETHER

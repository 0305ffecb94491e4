"""The documentation finds its readers: every page is in the map, short, and in plain words.

`make docs` builds the site, strictly. That takes 12 seconds of a processor, so only `make proof` does it.
"""

import re
from pathlib import Path

import pytest

from tests.house import markdown

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ENTRY = re.compile(r"^- \[[^\]]+\]\((?P<path>[^)#:]+\.md)\)", re.MULTILINE)
OF_THE_CODE = {"reference/metrics.md", "reference/rules.md", "requirements.md"}
"""Made of the code, or tables of evidence. They are as long as what they list."""
LONGEST = 1_200
TOGETHER = 55_000
HIGHLIGHTED = "bash console crontab dockerfile go json mermaid python sh sql systemd text toml yaml"


def _name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def _words(page: Path) -> int:
    """All of them, those of examples too: somebody has to read these as well."""
    return len(page.read_text(encoding="utf-8").split())


WRITTEN = [page for page in PAGES if _name(page) not in OF_THE_CODE]


def test_the_map_lists_every_page_once() -> None:
    listed = ENTRY.findall((DOCS / "index.md").read_text(encoding="utf-8"))
    assert sorted(path for path in listed if not path.startswith("../")) == sorted(
        _name(page) for page in PAGES if page.name != "index.md"
    )


@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page)) for page in PAGES])
def test_a_page_has_one_title_and_blocks_that_can_be_highlighted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^# .+$", markdown.prose(text), re.MULTILINE)) == 1
    assert text.startswith("# ")
    assert {block.language for block in markdown.blocks(text)} <= {"", *HIGHLIGHTED.split()}

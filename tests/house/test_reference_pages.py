"""The pages of the reference that are made of the code are what the code says."""

import re
from pathlib import Path

import pytest

from cronce.look import StatusDocument
from tests.house import reference_pages

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"
VARIABLE = re.compile(r"\bCRONCE_[A-Z]+(?:_[A-Z]+)*\b")


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_made_of_the_code_is_what_the_code_says(name: str) -> None:
    page = (reference_pages.FOLDER / name).read_text(encoding="utf-8")
    assert page == reference_pages.PAGES[name](), "run python -m tests.house.reference_pages"


def test_every_variable_of_the_environment_is_on_the_page_about_configuration() -> None:
    used = {
        name for file in (ROOT / "src").rglob("*.py") for name in VARIABLE.findall(file.read_text(encoding="utf-8"))
    }
    listed = set(VARIABLE.findall(CONFIGURATION.read_text(encoding="utf-8")))
    assert used - listed == set()


@pytest.mark.parametrize(
    ("section", "document", "before"),
    [
        ("holders", "Holder", ""),
        ("locks", "Held", ""),
        ("leaders", "Held", ""),
        ("effects", "Effect", ""),
        ("jobs", "Job", ""),
        ("runs", "Run", ""),
        ("why", "Why", ""),
        ("why", "Story", "slots[]."),
    ],
)
def test_the_page_about_json_has_every_key(section: str, document: str, before: str) -> None:
    keys = reference_pages.DESCRIBED["components"]["schemas"][document]["properties"]
    assert [key for key in keys if f"`{before}{key}`" not in _section(section)] == []


def test_the_page_about_json_has_every_key_of_status() -> None:
    assert [key for key in StatusDocument.__annotations__ if f"`{key}`" not in _section("status")] == []


def _section(title: str) -> str:
    page = (reference_pages.FOLDER / "json.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]

"""The pages of the reference that are made of the code are what the code says."""

import re
from pathlib import Path

import pytest

from cronce.look import RunDocument, SlotDocument, StatusDocument, WhyDocument
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
        ("status", StatusDocument, ""),
        ("runs", RunDocument, ""),
        ("why", WhyDocument, ""),
        ("why", SlotDocument, "slots[]."),
    ],
)
def test_the_page_about_json_has_every_key(section: str, document: type, before: str) -> None:
    page = (reference_pages.FOLDER / "json.md").read_text(encoding="utf-8")
    told = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert [key for key in document.__annotations__ if f"`{before}{key}`" not in told] == []

"""docs/requirements.md is complete, and every piece of evidence that it names exists."""

import re
from pathlib import Path

import pytest

from bench.peers.peers import PEERS
from tests.house import requirements
from tests.proof.parts import PARTS

ROOT = Path(__file__).parents[2]
OWNERS = {"core", "stores", "scheduler", "effects", "integrations", "audit", "monitor", "proof"}
TEST_FILE = """
def test_plain(): ...

async def test_async(): ...

def helper(): ...

class TestGroup:
    def test_method(self): ...

    class TestNested:
        def test_deep(self): ...
"""


@pytest.fixture(scope="module")
def rows() -> list[requirements.Requirement]:
    return requirements.read((ROOT / requirements.PAGE).read_text(encoding="utf-8"))


def test_every_number_from_1_to_216_stands_there_once_and_in_order(rows: list[requirements.Requirement]) -> None:
    assert [row.number for row in rows] == list(range(1, 217))


def test_every_row_has_a_text_and_an_owner(rows: list[requirements.Requirement]) -> None:
    assert [row for row in rows if not row.text or row.owner not in OWNERS] == []


def test_all_evidence_that_a_row_names_exists(rows: list[requirements.Requirement]) -> None:
    assert [line for row in rows for line in requirements.missing_evidence(row, ROOT)] == []


def test_every_row_says_which_command_shows_it_at_full_size(rows: list[requirements.Requirement]) -> None:
    assert [row.number for row in rows if row.full_size != requirements.full_size(row)] == []
    parts = {part for row in rows for named in re.findall(r'PART="?([^"`]+)', row.full_size) for part in named.split()}
    assert parts - {part.name for part in PARTS} == set()
    peers = {peer for row in rows for peer in re.findall(r"ONLY=([^`]+)", row.full_size)}
    assert peers - set(PEERS) == set()


def test_a_row_is_read_into_its_parts() -> None:
    page = "| 7 | Nodes are coordinated | core | `tests/a.py::test_x` `docs/a.md#b` |"
    assert requirements.read(page) == [
        requirements.Requirement(7, "Nodes are coordinated", "core", ("tests/a.py::test_x", "docs/a.md#b"))
    ]


def test_evidence_without_backticks_is_refused_rather_than_read_as_none() -> None:
    with pytest.raises(ValueError, match=r"requirement 7: 'tests/a\.py::test_x' .* backticks"):
        requirements.read("| 7 | Nodes are coordinated | core | tests/a.py::test_x |")


@pytest.mark.parametrize(
    "name", ["test_plain", "test_async", "TestGroup::test_method", "TestGroup::TestNested::test_deep"]
)
def test_a_test_that_is_defined_is_found(tmp_path: Path, name: str) -> None:
    _write_test_file(tmp_path)
    assert requirements.has_test(f"tests/test_it.py::{name}", tmp_path)


@pytest.mark.parametrize(
    "test_id",
    [
        "tests/test_it.py::test_gone",
        "tests/test_it.py::helper",
        "tests/test_it.py::TestGroup",
        "tests/test_it.py::test_method",
        "tests/test_gone.py::test_plain",
        "elsewhere/test_it.py::test_plain",
    ],
)
def test_a_test_that_is_not_there_is_not_found(tmp_path: Path, test_id: str) -> None:
    _write_test_file(tmp_path)
    assert not requirements.has_test(test_id, tmp_path)


class Contract:
    def test_a_promise_of_the_base(self) -> None:
        """Stands for a public contract that a store's suite inherits."""


class TestInherited(Contract):
    pass


def test_a_test_inherited_from_a_contract_is_found() -> None:
    here = "tests/house/test_requirements.py"
    assert requirements.has_test(f"{here}::TestInherited::test_a_promise_of_the_base", ROOT)
    assert not requirements.has_test(f"{here}::TestInherited::test_gone", ROOT)


def test_evidence_on_a_page_is_a_section_that_exists(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("# What a lock *is not*\n")
    assert requirements.has_section("docs/page.md#what-a-lock-is-not", tmp_path)
    assert not requirements.has_section("docs/page.md#another", tmp_path)
    assert not requirements.has_section("docs/page.md", tmp_path)
    assert not requirements.has_section("docs/gone.md#what-a-lock-is-not", tmp_path)


def test_missing_evidence_is_told_with_the_number_of_its_row(tmp_path: Path) -> None:
    row = requirements.Requirement(7, "text", "core", ("tests/a.py::test_x", "docs/a.md#b"))
    assert list(requirements.missing_evidence(row, tmp_path)) == [
        "requirement 7: no test tests/a.py::test_x",
        "requirement 7: no section docs/a.md#b",
    ]


def _write_test_file(root: Path) -> None:
    (root / "tests").mkdir()
    (root / "tests" / "test_it.py").write_text(TEST_FILE)

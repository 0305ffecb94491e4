"""What tests a module is found from its name: `src/cronce/a/b.py` is tested by `tests/a/test_b.py`, and
`src/cronce_audit/b.py` by `tests/audit/test_b.py`.

The list of modules that have no such file yet: `python -m tests.house.test_file_names`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.house import requirements

ROOT = Path(__file__).parents[2]
SOURCES = {Path("src/cronce"): Path(), Path("src/cronce_audit"): Path("audit")}
"""Each package, and the folder in `tests` that is for it."""
UNNAMED = Counter(
    {
        "audit": 21,
        "cli": 1,
        "clock": 1,
        "errors": 1,
        "events": 1,
        "headers": 1,
        "integrations": 2,
        "protocol": 3,
        "runtime": 3,
        "stores": 3,
        "telling": 1,
        "testing": 22,
        "torture": 2,
    }
)
"""Modules of each package with no test file of their name. A number that falls is lowered here; none may rise."""


def modules(root: Path = ROOT) -> Iterator[Path]:
    """Every module with code of its own, as a path below `tests`. `__init__` and `__main__` only lead there."""
    for source, folder in SOURCES.items():
        for path in sorted((root / source).rglob("*.py")):
            if not path.name.startswith("__"):
                yield folder / path.relative_to(root / source)


def has_tests(module: Path, root: Path = ROOT) -> bool:
    """`tests/a/test_b.py`, or parts of it: `tests/a/test_b_and_more.py`, or a folder `tests/a/b/` with tests in it."""
    folder = root / "tests" / module.parent
    own = [folder / f"test_{module.stem}.py", *folder.glob(f"test_{module.stem}_*.py")]
    return any(path.is_file() for path in own) or any((folder / module.stem).rglob("test_*.py"))


def unnamed(root: Path = ROOT) -> list[Path]:
    return [module for module in modules(root) if not has_tests(module, root)]


def test_no_more_modules_lack_a_test_file_of_their_name_than_did() -> None:
    found = Counter(module.parts[0].removesuffix(".py") for module in unnamed())
    assert [line for package in {*found, *UNNAMED} for line in judged(package, found[package], UNNAMED[package])] == []


def judged(package: str, found: int, allowed: int) -> list[str]:
    count = f"{package}: {found} modules have no test file of their name, {allowed} are allowed"
    if found < allowed:
        return [f"{count}; set UNNAMED[{package!r}] = {found} in tests/house/test_file_names.py"]
    if found > allowed:
        return [f"{count}; add tests/{package}/test_NAME.py for the module that is new"]
    return []


def test_the_answer_says_what_to_do() -> None:
    assert judged("audit", 3, 3) == []
    assert judged("audit", 2, 3)[0].endswith("set UNNAMED['audit'] = 2 in tests/house/test_file_names.py")
    assert judged("audit", 4, 3)[0].endswith("add tests/audit/test_NAME.py for the module that is new")


def test_a_module_without_a_test_file_of_its_name_is_listed(tmp_path: Path) -> None:
    paths = (
        "clock.py",
        "web/page.py",
        "web/site.py",
        "web/plot.py",
        "web/__init__.py",
        "lease.py",
        "../cronce_audit/b.py",
    )
    for module in paths:
        path = tmp_path / "src/cronce" / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for test in ("test_clock.py", "web/test_page_wide.py", "web/site/test_links.py", "test_plot.py"):
        path = tmp_path / "tests" / test
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert unnamed(tmp_path) == [Path("lease.py"), Path("web/plot.py"), Path("audit/b.py")]


def test_every_test_on_the_list_of_the_slowest_exists() -> None:
    named = re.findall(r"`(\S+\.py::\S+)`", (ROOT / "tests" / "slowest.md").read_text(encoding="utf-8"))
    assert named
    assert [test for test in named if not requirements.has_test(f"tests/{test}", ROOT)] == []


if __name__ == "__main__":
    print(*unnamed(), sep="\n")

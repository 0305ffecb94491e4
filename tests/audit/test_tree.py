"""Which files are read, and in which order."""

import os
from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce_audit.engine import LARGEST, files


def grow(root: Path, *paths: str, **texts: str) -> None:
    for path in (*paths, *texts):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts.get(path, "x"))


def test_files_come_in_the_order_of_their_names_whatever_the_disk_says(tmp_path: Path) -> None:
    grow(tmp_path, "b/a.py", "a.py", "b/A.py", "c.py", "a/z.py")
    assert list(files(tmp_path, [])) == ["a/z.py", "a.py", "b/A.py", "b/a.py", "c.py"]


def test_what_git_ignores_is_not_read(tmp_path: Path) -> None:
    grow(
        tmp_path,
        "kept.py",
        "made/by/a/program.py",
        "logs/a.log",
        "sub/private.py",
        "sub/kept.py",
        "sub/deep/private.py",
    )
    (tmp_path / ".gitignore").write_text("/made/\n*.log\n")
    (tmp_path / "sub/.gitignore").write_text("private.py\n!deep/private.py\n")
    assert [path for path in files(tmp_path, []) if path.endswith((".py", ".log"))] == [
        "kept.py",
        "sub/deep/private.py",
        "sub/kept.py",
    ]


def test_what_setuptools_copied_is_not_read(tmp_path: Path) -> None:
    grow(tmp_path, "build/lib/app.py", "build/app.py", "lib/app.py")
    assert list(files(tmp_path, [])) == ["build/app.py", "lib/app.py"]


def test_a_gitignore_speaks_of_its_own_folder_only(tmp_path: Path) -> None:
    grow(tmp_path, "one/x.py", "two/x.py", "x.py")
    (tmp_path / "one/.gitignore").write_text("/x.py\n")
    assert [path for path in files(tmp_path, []) if path.endswith(".py")] == ["two/x.py", "x.py"]


@pytest.mark.parametrize(
    "folder", [".git", ".venv", "node_modules", "vendor/lib", "a/third_party/b", "x/site-packages"]
)
def test_what_others_wrote_is_not_read(folder: str, tmp_path: Path) -> None:
    grow(tmp_path, f"{folder}/a.py", "own.py")
    assert list(files(tmp_path, [])) == ["own.py"]


@pytest.mark.parametrize(
    "path",
    [
        "tests/app.py",
        "test_app.py",
        "app_test.py",
        "conftest.py",
        "src/test/java/A.java",
        "AppTest.java",
        "a.test.ts",
        "b.spec.js",
    ],
)
def test_tests_are_read_only_if_asked_for(path: str, tmp_path: Path) -> None:
    grow(tmp_path, path, "own.py")
    assert list(files(tmp_path, [])) == ["own.py"]
    assert sorted(files(tmp_path, [], tests=True)) == sorted([path, "own.py"])


@pytest.mark.parametrize("name", ["contest.py", "latest.py", "attestation.java", "Tester.java", "testimony.py"])
def test_a_name_that_only_sounds_like_a_test_is_read(name: str, tmp_path: Path) -> None:
    grow(tmp_path, name)
    assert list(files(tmp_path, [])) == [name]


def test_a_vendored_folder_that_is_named_is_read(tmp_path: Path) -> None:
    grow(tmp_path, "vendor/lib/a.py")
    assert list(files(tmp_path / "vendor", [])) == ["lib/a.py"]


def test_a_file_that_is_named_is_read(tmp_path: Path) -> None:
    grow(tmp_path, "test_app.py")
    assert list(files(tmp_path / "test_app.py", [])) == ["test_app.py"]


def test_what_is_excluded_is_written_as_in_a_gitignore(tmp_path: Path) -> None:
    grow(tmp_path, "old/a.py", "new/a.py", "new/old/b.py", "c.yaml")
    assert list(files(tmp_path, ["/old", "*.yaml"])) == ["new/a.py", "new/old/b.py"]


def test_no_link_is_followed_and_nothing_huge_is_read(tmp_path: Path) -> None:
    grow(tmp_path, "real/a.py")
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "link.py").symlink_to(tmp_path / "real/a.py")
    (tmp_path / "huge.py").write_text("x" * (LARGEST + 1))
    os.mkfifo(tmp_path / "pipe.py")
    assert list(files(tmp_path, [])) == ["real/a.py"]


def test_a_path_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        list(files(tmp_path / "nowhere", []))


@pytest.mark.parametrize("line", ["!", "\\", "a\\", "[z-a]", "[[:foo:]"])
def test_a_line_of_a_gitignore_that_cannot_be_meant_is_passed_over(line: str, tmp_path: Path) -> None:
    grow(tmp_path, "a.py", "b.log")
    (tmp_path / ".gitignore").write_text(f"{line}\n*.log\n.gitignore\n")
    assert list(files(tmp_path, [])) == ["a.py"]


def test_what_cannot_be_excluded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"exclude: '\[z-a\]' is not a pattern"):
        list(files(tmp_path, ["*.yaml", "[z-a]"]))

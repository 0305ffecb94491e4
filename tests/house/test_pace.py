"""The folders of tests."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("word", ["a/b", "a\\b c", "é" * 200])
def test_a_folder_is_empty_private_and_bears_the_name_of_its_test(word: str, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    assert tmp_path.name.startswith("test_a_folder_is_empty_pri")
    assert len(tmp_path.name) <= 32  # with a socket inside, its path is still short enough
    assert tmp_path.stat().st_mode & 0o777 == 0o700

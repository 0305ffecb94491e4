"""The soak: what is good enough, and what it uses is read from the kernel."""

import os
from typing import Any

import pytest

from bench.soak.__main__ import is_good, usage

GOOD: dict[str, Any] = {
    "extra": 0, "missed": 0, "broken": [], "aged": 0, "exit_codes": [0],
    "start": {"memory": 30.0, "threads": 15, "files": 12}, "half": {"memory": 40.0, "threads": 15, "files": 12},
    "end": {"memory": 43.0, "threads": 15, "files": 13},
}  # fmt: skip


def test_a_soak_is_good_when_nothing_ran_twice_or_never_and_nothing_grows() -> None:
    assert is_good(GOOD)


@pytest.mark.parametrize(
    "bad",
    [
        {"extra": 1},
        {"missed": 1},
        {"broken": ["broken: …"]},
        {"aged": 1},
        {"aged": -1},
        {"exit_codes": [-9, 0]},
        {"end": {"memory": 45.0, "threads": 15, "files": 13}},
        {"end": {"memory": 43.0, "threads": 19, "files": 13}},
        {"end": {"memory": 43.0, "threads": 15, "files": 16}},
    ],
)
def test_each_of_these_alone_is_not(bad: dict[str, Any]) -> None:
    assert not is_good({**GOOD, **bad})


def test_what_a_process_uses_is_read_from_the_kernel() -> None:
    before = usage(os.getpid())
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(7)]
    try:
        after = usage(os.getpid())
    finally:
        for file in opened:
            os.close(file)
    assert after.files - before.files == 7
    assert after.memory > 1

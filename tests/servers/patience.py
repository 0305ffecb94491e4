"""Handles of little patience, for tests of just that, on a machine that is busy with something else."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import pytest

from cronce.errors import StoreUnavailable
from tests.house.wait import wait_until

T = TypeVar("T")

TRIES: Final = 10


def until_it_answers(ask: Callable[[], T]) -> T:
    """What is said as soon as anything is: a call that got no answer in its time is made again."""
    answers: list[T] = []

    def asked() -> bool:
        with suppress(StoreUnavailable):
            answers.append(ask())
        return bool(answers)

    wait_until(asked)
    return answers[0]


def unanswered_within(seconds: float, ask: Callable[[], object], least: float = 0.0) -> bool:
    """Whether a call that gets no answer is given up sooner than that, and not before `least`."""

    def give_up() -> None:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            ask()
        assert time.monotonic() - began > least

    return in_time(seconds, give_up)


def in_time(seconds: float, act: Callable[[], object]) -> bool:
    """Whether it takes less than that. A busy machine only makes it longer, so one time of several is enough."""
    return any(_took(act) < seconds for _ in range(TRIES))


def _took(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began

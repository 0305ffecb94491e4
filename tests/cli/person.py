"""Somebody at a terminal."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def default_store(url: str) -> Iterator[None]:
    """In this block commands use this store though none is named, so no `--store` is in what they tell to paste."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRONCE_URL", url)
        yield


class Person(io.StringIO):
    """What they type; when it is over they press Ctrl-D."""

    def isatty(self) -> bool:
        return True

"""For pytest, which finds it by itself: the fixture `cronce_time`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cronce import Cronce
    from cronce.testing.manual_time import Manual


@pytest.fixture
def cronce_time() -> "Iterator[Callable[..., Manual]]":
    """`time = cronce_time(cron, "2026-03-28T00:00:00Z")`, then `time.advance("1d")`: see `cronce.testing.manual`."""
    from cronce.testing.manual_time import manual  # noqa: PLC0415  who does not use it does not load it

    with ExitStack() as stack:

        def begin(cron: "Cronce", *args: Any, **named: Any) -> "Manual":
            return stack.enter_context(manual(cron, *args, **named))

        yield begin

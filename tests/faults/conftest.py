"""What tests under faults share: a way to note what they counted."""

import json
from collections.abc import Callable

import pytest

from tests.faults.notes import Note


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    return lambda counts: record_property("play", json.dumps(counts))

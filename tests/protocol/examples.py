"""How many examples a property is tried with."""

import os

from hypothesis import settings

MORE = int(os.environ.get("CRONCE_EXAMPLES", "1"))
"""So many times as many as in `make test`."""


def examples(number: int) -> settings:
    return settings(max_examples=number * MORE, deadline=None)

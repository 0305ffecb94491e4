"""What a test counted, for the docs: `make proof` reads it from pytest's report."""

from collections.abc import Callable, Mapping

Note = Callable[[Mapping[str, object]], None]

"""Benchmarks: what cronce costs next to the bare thing, each with a limit. Run them with `python -m bench`."""

"""What people have: each app as it is without us and, where `NEIGHBOURS_GUARDED` is set, with one line more."""

import os

GUARDED = "NEIGHBOURS_GUARDED" in os.environ
PERIOD = 4
"""Seconds from a slot to the next."""

"""Skipping for want of a server or tool: the one kind of skip that may leave a requirement unshown."""

import re
import shutil
from typing import NoReturn

import pytest

REASON = re.compile(r"^needs (?P<what>[^:]+): (?P<install>.+)$")


def reason(what: str, install: str) -> str:
    """The agreed wording, for `pytest.mark.skipif(..., reason=reason("gcc", "apt-get install gcc"))`."""
    text = f"needs {what}: {install}"
    if not REASON.match(text):
        raise ValueError(f"{text!r} does not read as 'needs <server or tool>: <what to install>'")
    return text


def needs(what: str, install: str) -> NoReturn:
    """Skip the test, the fixture's users or the whole module, and say what would have let it run."""
    pytest.skip(reason(what, install), allow_module_level=True)


def tool(name: str, install: str) -> str:
    """The path of a program the test runs, or a skip that names it."""
    return shutil.which(name) or needs(name, install)

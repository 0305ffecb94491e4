"""What is not installed is named, with what installs it."""

import sys
from importlib import import_module

import pytest

from cronce.errors import BadInput


@pytest.mark.parametrize(
    ("extra", "package", "part"),
    [
        ("apscheduler", "apscheduler", ""),
        ("autogen", "autogen_core", ""),
        ("celery", "celery", ""),
        ("django", "django", ".project"),
        ("dramatiq", "dramatiq", ""),
        ("langchain", "langchain_core", ""),
        ("rq", "rq", ""),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, extra: str, package: str, part: str
) -> None:
    ours = f"cronce.integrations.{extra}{part}"
    for name in [name for name in sys.modules if name == ours or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"pip install 'cronce\[{extra}\]'"):
        import_module(ours)

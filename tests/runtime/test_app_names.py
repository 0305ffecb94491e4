"""One name, one job: two functions that would be the same job are refused, with both places."""

import importlib
import logging
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from cronce import Cronce
from cronce.errors import BadInput
from tests.runtime.shelf import HandNode, Wire

TWO = """
    from cronce import Cronce

    cron = Cronce("memory:")


    @cron.job("@hourly")
    def report():
        return "sales"


    @cron.job("@hourly")
    def report():
        return "stock"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_two_functions_of_one_name_are_refused_with_both_places(here: Path) -> None:
    """The later replaced the earlier without a word, where their schedules were the same: it never ran."""
    (here / "twice_in_one.py").write_text(dedent(TWO))
    with pytest.raises(BadInput, match=r"^there are two jobs named report: twice_in_one:7 and twice_in_one:12; give"):
        importlib.import_module("twice_in_one")


def test_so_they_are_in_two_modules(here: Path) -> None:
    (here / "one_cron.py").write_text('from cronce import Cronce\ncron = Cronce("memory:")\n')
    for name in ("sales_jobs", "stock_jobs"):
        (here / f"{name}.py").write_text("from one_cron import cron\n\n@cron.job('@hourly')\ndef report():\n    pass\n")
    importlib.import_module("sales_jobs")
    with pytest.raises(BadInput, match=r"two jobs named report: sales_jobs:3 and stock_jobs:3; give one of them name="):
        importlib.import_module("stock_jobs")


def test_two_commands_of_one_name_are_refused_and_the_same_twice_is_not() -> None:
    cron = Cronce("memory:")
    for _ in range(2):
        cron.command("sync", ["./sync.sh", "--all"], "@hourly")
    with pytest.raises(BadInput, match=r"sync: the command ./sync.sh --all and the command ./other.sh; give one"):
        cron.command("sync", ["./other.sh"], "@hourly")


def test_a_module_that_is_loaded_again_declares_the_same_again(here: Path) -> None:
    (here / "kept_cron.py").write_text('from cronce import Cronce\ncron = Cronce("memory:")\n')
    (here / "again.py").write_text("from kept_cron import cron\n\n@cron.job('@hourly')\ndef report():\n    return 1\n")
    module = importlib.import_module("again")
    importlib.reload(module)
    assert list(sys.modules["kept_cron"].cron.jobs) == ["report"]


def test_a_job_says_where_its_code_is() -> None:
    cron = Cronce("memory:")
    cron.job("@hourly")(test_a_job_says_where_its_code_is)
    cron.command("sync", ["true"], "@hourly")
    assert {name: job.code for name, job in cron.jobs.items()} == {
        "test_a_job_says_where_its_code_is": "tests.runtime.test_app_names:test_a_job_says_where_its_code_is",
        "sync": "",
    }


def test_a_guard_whose_name_is_another_function_elsewhere_warns_once(
    store: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = HandNode(store, "web-1"), HandNode(store, "web-2")
    spec, at = ("v1", "every 1h"), store.clock.wall()
    with caplog.at_level(logging.WARNING):
        one.do(one.ledger.jobs.declare("report", spec, at, "sales:report"))
        one.do(one.ledger.jobs.declare("report", spec, at, "sales:report"))
        assert caplog.messages == []
        for _ in range(2):
            two.do(two.ledger.jobs.declare("report", spec, at, "stock:report"))
    (said,) = caplog.messages
    assert said == (
        "report is stock:report here and sales:report elsewhere: if these are two jobs, each slot runs only one of"
        " them. Give one of them another name, or each application its own namespace"
    )

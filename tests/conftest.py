"""What every test shares: a test bench for plugins, the watch over docs/requirements.md, clocks, signals."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.load_profile("ci")  # what a busy machine is slow at is no finding, and one run of the suite is like another
pytest.register_assert_rewrite("cronce.testing.contract")  # its asserts are shown in full, though it is in the package

pytest_plugins = [
    "pytester",
    "tests.house.pace",
    "tests.house.plugin",
    "tests.house.fast",
    "tests.runtime.fixtures",
    "tests.servers.fixtures",
]


def pytest_configure() -> None:
    """A script's background job ignores SIGINT and SIGQUIT, what nohup starts ignores SIGHUP; children inherit it. The
    tests send these signals to children of theirs. A handler, even an empty one, is not inherited."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def _state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What processes of the tests write down when their store is away is not for the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_STATE_HOME" not in os.environ:
            patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield

"""One busy store for all tests that leave it as it is, since to fill it takes longer than to ask; and one to change."""

import pytest

from cronce.protocol.store_clock import Believed
from cronce.runtime import client
from tests.web.house import Api, Browser, Busy


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of these stores stand still, or are of another year, and nobody is to doubt them."""
    monkeypatch.setattr(client, "judged", lambda _before, sample, *_: Believed(sample))


@pytest.fixture(scope="module")
def busy() -> Busy:
    return Busy()


@pytest.fixture
def visitor(busy: Busy) -> Browser:
    return Browser(busy.app)


@pytest.fixture
def program(busy: Busy) -> Api:
    return Api(busy.app)


@pytest.fixture
def town() -> Busy:
    """Of which something is changed."""
    return Busy()


@pytest.fixture
def ada(town: Busy) -> Browser:
    ada = Browser(town.app)
    assert ada.log_in().status_code == 303
    return ada

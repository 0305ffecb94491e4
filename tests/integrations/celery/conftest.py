"""One app and one worker for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.integrations.celery.shop import Shop
from tests.servers.valkey import Valkey


@pytest.fixture(scope="session")
def shop(valkey: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(valkey.url, 7, tmp_path_factory.mktemp("shop"))
    try:
        shop.worker("celery", pool="prefork")
        yield shop
    finally:
        shop.close()

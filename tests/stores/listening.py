"""What a listener of any store does: it hears each write, and says when its connection broke."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from cronce.stores.base import Listener, Store
from cronce.testing.contract import listening


@contextmanager
def heard_on(store: Store) -> Iterator[Listener]:
    with closing(store), closing(listening(store)) as listener:
        yield listener

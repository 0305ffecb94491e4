"""Listening to Redis: SUBSCRIBE, on a connection of its own. `script.lua` publishes.

A channel is the whole server's, or the whole Cluster's: a store of the same namespace in another of its databases has
the same news.
"""

from ssl import SSLWantReadError

from cronce.errors import StoreUnavailable
from cronce.stores.news import SocketListener, keep_alive
from cronce.stores.redis.server import Line, ReplyError, connect, explained, shown, tag
from cronce.stores.redis.url import Place


def listen(place: Place) -> SocketListener:
    line = connect(place)
    try:
        reply = line.subscribe(f"{tag(place.namespace)}:news")
        if isinstance(reply, ReplyError):
            raise explained(reply, place)
        keep_alive(line.fileno())
        return SocketListener(Channel(line))
    except BaseException:
        line.close()
        raise


class Channel:
    """What a server says to a subscriber: nothing but messages."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.fileno = line.fileno
        self.close = line.close

    def heard(self) -> bool:
        try:
            return bool(self._line.hear())
        except (BlockingIOError, SSLWantReadError):
            return False
        except OSError as error:
            raise StoreUnavailable(f"redis at {shown(self._line.address)} broke off: {error}") from error

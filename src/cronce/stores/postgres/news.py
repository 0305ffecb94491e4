"""Listening to PostgreSQL: LISTEN, on a connection of its own. The functions in schema.sql say NOTIFY."""

from cronce.stores.news import SocketListener, keep_alive
from cronce.stores.postgres.line import Line, Place, connect, explained, psycopg


def listen(place: Place) -> SocketListener:
    line = connect(place)
    try:
        return SocketListener(Channel(line, place))
    except BaseException:
        line.close()
        raise


class Channel:
    """What a session says that listens."""

    def __init__(self, line: Line, place: Place) -> None:
        self._line = line
        self._place = place
        self._news = False
        line.add_notify_handler(self._note)  # one may come with the answer to LISTEN
        try:
            line.execute(f"LISTEN {place.channel}")
        except psycopg.Error as error:
            raise explained(error, place) from error
        keep_alive(line.fileno())

    def fileno(self) -> int:
        return self._line.fileno()

    def heard(self) -> bool:
        wire = self._line.pgconn
        try:
            wire.consume_input()
        except psycopg.Error as error:
            raise explained(error, self._place) from error
        while wire.notifies():
            self._news = True
        news, self._news = self._news, False
        return news

    def close(self) -> None:
        self._line.close()

    def _note(self, _notify: object) -> None:
        self._news = True

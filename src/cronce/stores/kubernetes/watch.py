"""What an API server tells of the store's own Lease, in which the board is."""

from http.client import HTTPConnection, HTTPResponse

from cronce.model import EPOCH
from cronce.stores.base import BOARD
from cronce.stores.http_api import Json
from cronce.stores.kubernetes.layout import STORE, LeaseCells, read_shelf
from cronce.stores.news import HttpWatch


class BoardWatch(HttpWatch):
    """`read` is the Lease that the watch begins after."""

    def __init__(self, line: HTTPConnection, response: HTTPResponse, shown: str, read: LeaseCells) -> None:
        super().__init__(line, response, shown)
        self._board = board(read)

    def is_news(self, message: Json) -> bool:
        """Whoever writes anything else into the Lease leaves the board as it was; what is purged only goes away."""
        if message["type"] not in ("ADDED", "MODIFIED"):
            raise self.over(str(message["object"].get("message") or "the store's Lease was deleted"))
        before, self._board = self._board, board(read_shelf(STORE, message["object"], EPOCH))
        return not self._board <= before


def board(shelf: LeaseCells) -> set[tuple[str, int]]:
    return {(key, cell.version) for key, cell in shelf.cells.items() if key.startswith(BOARD)}

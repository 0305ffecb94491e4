"""Listening to etcd: a watch, through the same gateway as everything else. Its answer is JSON by lines, without end."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from ssl import SSLWantReadError

from cronce.errors import StoreUnavailable
from cronce.stores.etcd.api import Api, Json, text64
from cronce.stores.etcd.layout import after_all
from cronce.stores.news import SocketListener, keep_alive


def listen(api: Api, prefix: bytes) -> SocketListener:
    """To all that is put below a prefix from now on: the watch begins after the revision that a reading has shown."""
    deadline = api.deadline()
    board: Json = {"key": text64(prefix), "range_end": text64(after_all(prefix))}
    now = api.ask("/v3/kv/range", {**board, "count_only": True}, deadline).revision
    watch = {**board, "start_revision": now + 1, "filters": ["NODELETE"]}
    line, response = api.stream("/v3/watch", {"create_request": watch}, deadline)
    try:
        return SocketListener(Watch(line, response, api.address.shown))
    except BaseException:
        line.close()
        raise


class Watch:
    """What etcd tells of a watch: that it was created, then what happened, in pieces as HTTP has them."""

    def __init__(self, line: HTTPConnection, response: HTTPResponse, shown: str) -> None:
        self._line = line
        self._response = response
        self._shown = shown
        self._pieces = response.fp.peek()  # the first of it came with the head
        self._text = b""
        self._ended = False
        keep_alive(self.fileno())
        line.sock.settimeout(0)

    def fileno(self) -> int:
        number: int = self._line.sock.fileno()
        return number

    def heard(self) -> bool:
        try:
            received = self._line.sock.recv(1 << 16)
        except (BlockingIOError, SSLWantReadError):
            received = None
        except OSError as error:
            raise self._over(str(error)) from error
        self._ended = received == b""
        self._pieces += received or b""
        events = [message for message in self._messages() if self._is_event(message)]
        if self._ended and not events:
            raise self._over("it hung up")
        return bool(events)

    def close(self) -> None:
        self._response.close()
        self._line.close()

    def _messages(self) -> Iterator[Json]:
        self._text += b"".join(self._whole_pieces())
        *lines, self._text = self._text.split(b"\n")
        return map(json.loads, lines)

    def _whole_pieces(self) -> Iterator[bytes]:
        """Each is its length in hexadecimal, a line's end, itself, and a line's end; an empty one is the last."""
        while True:
            length, there, rest = self._pieces.partition(b"\r\n")
            size = int(length, 16) if there else 0
            self._ended |= bool(there) and not size
            if self._ended or not there or len(rest) < size + 2:
                return
            self._pieces = rest[size + 2 :]
            yield rest[:size]

    def _is_event(self, message: Json) -> bool:
        """A watch is cancelled where its member has no leader, or the history that it begins with is gone."""
        result = message.get("result", {})
        if "error" in message or result.get("canceled"):
            raise self._over(str(message.get("error") or result.get("cancel_reason") or "it was cancelled"))
        return bool(result.get("events"))

    def _over(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self._shown}: its news broke off: {why}")

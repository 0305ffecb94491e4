"""The page of a busy store, and a browser that talks to it without a network."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
from starlette.applications import Starlette

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Cell, Traits, Write
from cronce.stores.base import Loaded, Page, Scan, Swapped
from cronce.stores.memory import MemoryStore
from cronce.web.api import openapi
from cronce.web.app import application
from tests.web.scene import Scene, fill

TOKEN: Final = "an-owl-in-a-clock-tower-at-midnight"
BEARER: Final = {"Authorization": f"Bearer {TOKEN}"}


class Moody:
    """A store that answers, or does not."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.away = False

    @property
    def traits(self) -> Traits:
        return self._store.traits

    def load(self, keys: Sequence[str]) -> Loaded:
        return self._there().load(keys)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return self._there().swap(writes, seen)

    def scan(self, scan: Scan) -> Page:
        return self._there().scan(scan)

    def purge(self, cells: Sequence[Cell]) -> int:
        return self._there().purge(cells)

    def close(self) -> None:
        """It is memory."""

    def _there(self) -> MemoryStore:
        if self.away:
            raise StoreUnavailable("postgresql://cronce:hunter2@db/cronce gives no answer")
        return self._store


class Busy:
    """A store in which much happens, and the page of it. Unless another store is given its clock stands still: who runs
    goes on running, and who is late is not dead yet, however long the tests take."""

    def __init__(self, store: MemoryStore | None = None, **how: Any) -> None:
        now = SystemClock().wall()
        self.store = Moody(store or MemoryStore(lambda: now))
        self.scene: Scene = fill(self.store)
        self.cron = Cronce(store=self.store)
        self.app = application(self.cron, **{"token": TOKEN, "private": False, **how})


class Browser:
    """Keeps cookies, and asks as browsers do."""

    def __init__(
        self, app: Starlette, *, base: str = "http://localhost", html: bool = True, address: str = "203.0.113.7"
    ) -> None:
        self.app, self._base, self._address = app, base, address
        self.headers = {"Accept": "text/html"} if html else {}
        self.cookies = httpx.Cookies()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, form: Mapping[str, str] | None = None, **how: Any) -> httpx.Response:
        return self.send("POST", path, data=form, **how)

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        headers = {**self.headers, **(how.pop("headers", None) or {})}
        return asyncio.run(self._send(method, path, headers=headers, **how))

    async def _send(self, method: str, path: str, **how: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(self._address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=self._base, cookies=self.cookies) as client:
            answer = await client.request(method, path, **how)
            self.cookies = client.cookies
            return answer

    def log_in(self, by: str = "ada", token: str = TOKEN, *, path: str = "/login", next: str = "/") -> httpx.Response:  # noqa: A002
        return self.post(path, {"by": by, "token": token, "next": next})

    def csrf(self, path: str) -> str:
        """The word in the form at this address."""
        page = self.get(path)
        assert page.status_code == 200, page.text
        return page.text.partition('name="csrf" value="')[2].partition('"')[0]


class Api(Browser):
    """A program, with the token or without."""

    def __init__(self, app: Starlette, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(app, html=False)
        self.headers = dict(BEARER if headers is None else headers)

    def ask(self, path: str) -> Any:
        answer = self.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def act(self, path: str, said: Mapping[str, Any] | None = None) -> httpx.Response:
        return self.send("POST", f"/api/v1{path}", json=said or {})


PAUSE = "/jobs/billing/pause"
API_PAUSE = "/api/v1/jobs/billing/pause"


def paused(busy: Busy) -> bool:
    return bool(Api(busy.app, {}).ask("/jobs/billing")["paused"])


DESCRIBED: dict[str, Any] = json.loads(json.dumps(openapi()))
"""The API, as it describes itself."""


def described(path: str, status: str = "200") -> dict[str, Any]:
    verb = next(iter(DESCRIBED["paths"][path].values()))
    schema = verb["responses"][status]["content"]["application/json"]["schema"]
    return {**schema, "components": DESCRIBED["components"]}

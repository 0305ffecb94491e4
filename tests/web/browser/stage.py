"""The page over a store as a busy week leaves it, and over an empty one: served from a thread of the tests."""

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import uvicorn

from cronce import Cronce
from cronce.web.app import application
from tests.house.wait import wait_until
from tests.servers.process import free_port
from tests.web.browser.cluster import TOKEN
from tests.web.scene import ABANDONED, REPORT, Scene, fill


class Served(ExitStack):
    """One application at one address."""

    def __init__(self, url: str, token: str | None = None, report: Path | None = None) -> None:
        super().__init__()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._app = application(self.enter_context(Cronce(url)), token=token, report=report, private=False)
        config = uvicorn.Config(self._app, port=port, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        self.callback(self._stop)
        wait_until(lambda: self._server.started)
        return self

    def _stop(self) -> None:
        self._server.should_exit = True
        self._app.state.live.close()
        self._thread.join()


class Stage(ExitStack):
    """`url` shows only, `acting` lets one log in, `empty` has nothing yet."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        report = folder / "report.json"
        report.write_text(json.dumps(REPORT))
        busy = f"sqlite:///{folder}/busy.db"
        with Cronce(busy) as cron:
            self.scene: Scene = fill(cron.at_work().node.store)
        self.url = self.enter_context(Served(busy, None, report)).url
        self.acting = self.enter_context(Served(busy, TOKEN, report)).url
        self.empty = self.enter_context(Served(f"sqlite:///{folder}/empty.db")).url

    @property
    def pages(self) -> list[str]:
        """Every page that there is, each with something on it."""
        scene = self.scene
        slots = (scene.running, scene.failed, scene.by_hand)
        return [
            *(
                "/",
                "/jobs",
                "/jobs/order-sync",
                "/jobs/cleanup",
                "/jobs/reindex",
                f"/jobs/{ABANDONED}",
                "/runs",
                "/timeline?span=1h",
                "/timeline?span=1d",
            ),
            *(f"/runs/{slot.key.replace('#', '%23')}" for slot in slots),
            *(
                "/alerts",
                "/alerts/lost/billing",
                "/effects",
                "/locks",
                "/leaders",
                "/holders",
                "/others",
                "/findings",
                "/help",
                "/search?q=order",
            ),
        ]

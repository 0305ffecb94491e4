"""A service for a real server: what it did stands in a file of its own, a line for each time that it was asked.

While there is a file `hang`, it stops in the middle of its work. `/retry` may be asked again when in doubt.
"""

import asyncio
import json
import os
from pathlib import Path

from cronce import Cronce
from cronce.receivers.asgi import Once, Receive, Scope, Send

FOLDER = Path(os.environ["SERVICE_FOLDER"])
cron = Cronce(f"sqlite:///{FOLDER}/receiver.db")


def note(text: str) -> None:
    with (FOLDER / "done").open("a") as file:
        file.write(f"{text}\n")


async def work(scope: Scope, _receive: Receive, send: Send) -> None:
    key = dict(scope["headers"]).get(b"idempotency-key", b"").decode()
    note(f"{os.getpid()} {key}")
    if (FOLDER / "hang").exists():
        await asyncio.Event().wait()
    body = json.dumps({"pid": os.getpid(), "key": key}).encode()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


careful = Once(work, cron, name="payments")
again = Once(work, cron, name="again", unsure="retry")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        cron.close()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await (again if scope["path"] == "/retry" else careful)(scope, receive, send)

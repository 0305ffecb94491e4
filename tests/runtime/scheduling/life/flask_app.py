"""The same application in Flask. It answers every request with its process number."""

import os

from flask import Flask

from tests.runtime.scheduling.life.app import cron

app = Flask(__name__)

if os.environ.get("LIFE_WHEN") == "import":
    cron.start(grace="10s")


@app.get("/")
def who() -> str:
    return str(os.getpid())

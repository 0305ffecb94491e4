"""Which Python files are read at all: those in which one of these words stands, in any case; and where servers begin.

Most files of a tree have nothing to do with schedules. Looking for a word costs a thousandth of parsing.
"""

from typing import Final

INTERESTING: Final = (
    # schedulers, what starts them, and where they run
    "schedul", "add_job", "celery", "crontab", "repeat_every", "repeat_at", "rocketry", "huey", "dramatiq",
    "import arq", "from arq", "import rq", "from rq", "rq_scheduler", "gunicorn", "uvicorn", "hypercorn", "granian",
    "uwsgi", "waitress", "lifespan", "on_startup", "on_event", "flask(", "fastapi(", "starlette(", "create_app",
    "appconfig",
    # hand-made locks
    "setnx", "redis", "valkey", "flock", "lockf", "filelock", "portalocker", "advisory_lock", "get_lock", "cronce",
)  # fmt: skip
_ENTRANCES: Final = frozenset({"wsgi.py", "asgi.py", "gunicorn.conf.py", "gunicorn_conf.py", "gunicorn_config.py"})
"""`from jobs import begin; begin()` may be all that stands in them."""


def is_interesting(name: str, text: str) -> bool:
    lowered = text.lower()
    return name in _ENTRANCES or any(word in lowered for word in INTERESTING)

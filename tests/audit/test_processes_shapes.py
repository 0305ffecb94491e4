"""How real projects start their schedulers: each shape was met in public code, and is found, or left alone."""

from pathlib import Path

import pytest

from cronce_audit.model import Severity
from tests.audit.trees import report_on

APP = "from flask import Flask\n\ndef create_app():\n    app = Flask(__name__)\n    return app\n"
SCHEDULER = """\
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")

def start():
    scheduler.start()
"""
FOUR = "web: gunicorn --bind 0.0.0.0:$PORT --workers 4 --worker-class gthread --threads 2 {}\n"

SHAPES = {
    "a start in wsgi.py": (
        {
            "shop/__init__.py": APP,
            "shop/scheduler.py": SCHEDULER,
            "wsgi.py": "from shop import create_app\nfrom shop.scheduler import start\n\napp = create_app()\nstart()\n",
            "Procfile": FOUR.format("wsgi:app"),
        },
        ["CR201 shop/scheduler.py:6"],
    ),
    "a factory with the server's parentheses": (
        {
            "app.py": f"from shop.scheduler import start\n{APP.replace('return app', 'start(); return app')}",
            "shop/__init__.py": "",
            "shop/scheduler.py": SCHEDULER,
            "Procfile": FOUR.format('"app:create_app()"'),
        },
        ["CR201 shop/scheduler.py:6"],
    ),
    "a thread that wsgi.py starts": (
        {
            "api.py": "import time\nimport schedule\nfrom flask import Flask\n\napp = Flask(__name__)\n\n"
            "def worker():\n    while True:\n        schedule.run_pending()\n        time.sleep(60)\n",
            "wsgi.py": "from threading import Thread\nfrom api import app, worker\n\n"
            "thread = Thread(target=worker, daemon=True)\nthread.start()\n",
            "Procfile": FOUR.format("wsgi:app"),
        },
        ["CR201 api.py:9"],
    ),
    "a hook that is defined in a function": (
        {
            "jobs.py": "from apscheduler.schedulers.asyncio import AsyncIOScheduler\n\n"
            'scheduler = AsyncIOScheduler(timezone="UTC")\n\n'
            'def start_scheduler(app):\n    @app.on_event("startup")\n    def begin():\n        scheduler.start()\n',
            "main.py": "from fastapi import FastAPI\nfrom jobs import start_scheduler\n\napp = FastAPI()\n"
            "start_scheduler(app)\n",
            "Procfile": "web: uvicorn main:app --host 0.0.0.0 --port $PORT --workers 2\n",
        },
        ["CR201 jobs.py:8"],
    ),
    "only the first worker": (
        {
            "app.py": "app = None\n",
            "jobs.py": SCHEDULER,
            "gunicorn.conf.py": "workers = 3\n\ndef post_fork(server, worker):\n    if worker.age == 0:\n"
            "        from jobs import start\n        start()\n",
            "Procfile": "web: gunicorn app:app\n",
        },
        [],
    ),
    "every worker, after it is made": (
        {
            "app.py": "app = None\n",
            "jobs.py": SCHEDULER,
            "gunicorn.conf.py": "workers = 3\n\ndef post_worker_init(worker):\n"
            "    from jobs import start\n    start()\n",
            "Procfile": "web: gunicorn app:app\n",
        },
        ["CR201 jobs.py:6"],
    ),
    "one worker in the settings": (
        {
            "app.py": "app = None\n",
            "jobs.py": SCHEDULER,
            "gunicorn.conf.py": "workers = 1\n\ndef post_worker_init(worker):\n"
            "    from jobs import start\n    start()\n",
            "Procfile": "web: gunicorn app:app\n",
        },
        [],
    ),
    "the master, with the app in the settings": (
        {
            "config/gunicorn.conf.py": "from jobs import scheduler\n\nworkers = 4\nwsgi_app = 'app:app'\n"
            "preload_app = True\n\ndef on_starting(server):\n    scheduler.start()\n",
            "app.py": "app = None\n",
            "jobs.py": SCHEDULER,
            "Procfile": "web: gunicorn -c config/gunicorn.conf.py\n",
        },
        [],
    ),
    "the number of a worker in the environment": (
        {
            "jobs.py": SCHEDULER,
            "wsgi.py": "import os\nfrom jobs import start\n\nworker = os.environ.get('WORKER_ID', '0')\n"
            "if worker == '0':\n    start()\napplication = None\n",
            "Procfile": FOUR.format("wsgi:application"),
        },
        ["CR201 jobs.py:6"],
    ),
    "a program with a reloader and its guard": (
        {
            "shop/__init__.py": APP,
            "shop/scheduler.py": SCHEDULER,
            "run.py": "from shop import create_app\nfrom shop.scheduler import start\n\napp = create_app()\n\n"
            "if __name__ == '__main__':\n    from werkzeug.serving import is_running_from_reloader\n"
            "    if not is_running_from_reloader():\n        start()\n    app.run(debug=True)\n",
        },
        [],
    ),
    "ready, where the reloader's child is left out": (
        {
            "shop/__init__.py": "",
            "shop/jobs.py": SCHEDULER,
            "shop/apps.py": "import os\nfrom django.apps import AppConfig\n\n"
            "class AppConfig(AppConfig):\n    def ready(self):\n        from . import jobs\n"
            "        if os.environ.get('RUN_MAIN', None) != 'true':\n            jobs.start()\n",
        },
        [],
    ),
    "ready, in the reloader's child or in production": (
        {
            "shop/__init__.py": "",
            "shop/jobs.py": SCHEDULER,
            "shop/wsgi.py": "from django.core.wsgi import get_wsgi_application\napplication = get_wsgi_application()\n",
            "shop/apps.py": "import os\nfrom django.apps import AppConfig\nfrom django.conf import settings\n\n"
            "class ShopConfig(AppConfig):\n    def ready(self):\n        from .jobs import start\n"
            "        if os.environ.get('RUN_MAIN') or not settings.DEBUG:\n            start()\n",
            "Procfile": FOUR.format("shop.wsgi:application"),
        },
        ["CR201 shop/jobs.py:6"],
    ),
    "ready, under runserver only": (
        {
            "shop/__init__.py": "",
            "shop/jobs.py": SCHEDULER,
            "shop/apps.py": "import sys\nfrom django.apps import AppConfig\n\n"
            "class ShopConfig(AppConfig):\n    def ready(self):\n"
            "        if 'runserver' in sys.argv:\n            from .jobs import start\n            start()\n",
        },
        [],
    ),
    "a start when a request asks for it": (
        {
            "app.py": "from flask import Flask\nfrom jobs import scheduler\n\napp = Flask(__name__)\n\n"
            "@app.route('/begin')\ndef begin():\n    if not scheduler.running:\n        scheduler.start()\n",
            "jobs.py": SCHEDULER,
            "Procfile": FOUR.format("app:app"),
        },
        [],
    ),
    "a beat of an old Celery in a worker, and one without": (
        {
            "Procfile": "scheduler: /usr/local/bin/celery worker --app=shop.worker --beat -c$COUNT -Q$QUEUES -linfo\n"
            "worker: /usr/local/bin/celery worker --app=shop.worker -c$COUNT -Q$QUEUES -linfo -Ofair\n",
        },
        ["CR211 Procfile:1"],
    ),
    "one beat beside its workers": (
        {
            "Procfile": FOUR.format("shop.wsgi")
            + "worker: celery -A shop worker --loglevel=info --max-tasks-per-child=50\n"
            + "beat: celery -A shop beat -l info --scheduler django_celery_beat.schedulers:DatabaseScheduler\n",
        },
        [],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shapes_of_real_code(tmp_path: Path, shape: str) -> None:
    tree, found = SHAPES[shape]
    findings = report_on(tmp_path, tree).findings
    assert [
        f"{each.rule} {each.place}"
        for each in findings
        if each.rule.startswith("CR2") and (each.rule, each.severity) != ("CR206", Severity.INFO)
    ] == found

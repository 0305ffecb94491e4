"""What a command line comes to: which server, how many workers, which Celery."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cronce_audit.model import CommandLine, Facts, Place
from cronce_audit.processes.argv import SEVERAL, UNKNOWN, Count, programs
from cronce_audit.processes.commands import Celery, Serving, celeries, runnings
from cronce_audit.processes.servers import servings
from tests.audit.trees import report_on

PLACE = Place("compose.yml", 7)


def facts_of(text: str, copies: int | None = 1, environment: Mapping[str, str] = MappingProxyType({})) -> Facts:
    words = tuple(shlex.split(text))
    return Facts([CommandLine(words, PLACE, "compose", "web", copies, tuple(environment.items()))], 2026)


def serving(text: str, **environment: str) -> Serving:
    [found] = servings(facts_of(text, environment=environment))
    return found


def celery(text: str) -> Celery:
    [found] = celeries(facts_of(text))
    return found


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("gunicorn app:app", Count(1)),
        ("gunicorn -w 4 app:app", Count(4)),
        ("gunicorn -w4 app:app", Count(4)),
        ("gunicorn --workers=4 app:app", Count(4)),
        ("gunicorn app:app --bind 0.0.0.0:80 --access-logfile - -w 2", Count(2)),
        ("gunicorn --capture-output --preload -w 3 app:app", Count(3)),
        ("gunicorn -k uvicorn.workers.UvicornWorker -w 4 app:app", Count(4)),
        ("gunicorn -w ${WORKERS:-4} app:app", Count(4)),
        ("gunicorn -w $WORKERS app:app", UNKNOWN),
        ("gunicorn -w $(nproc) app:app", SEVERAL),
        ("/usr/local/bin/gunicorn -w 4 app:app", Count(4)),
        ("uvicorn --workers 4 app:app", Count(4)),
        ("uvicorn app:app", Count(1)),
        ("uvicorn app:app --workers 4 --reload", Count(1)),
        ("hypercorn -w 3 app:app", Count(3)),
        ("granian --interface asgi --workers 2 app:app", Count(2)),
        ("waitress-serve --port 80 app:app", Count(1)),
        ("daphne -b 0.0.0.0 app:app", Count(1)),
        ("fastapi run --workers 4 app.py", Count(4)),
        ("uwsgi --http :80 --processes 4 --lazy-apps -w app:app", Count(4)),
        ("sh -c 'exec gunicorn -w 4 app:app'", Count(4)),
        ("bash -lc 'python manage.py migrate && gunicorn -w 4 app:app'", Count(4)),
        ("poetry run gunicorn -w 4 app:app", Count(4)),
        ("uv run --no-dev gunicorn -w 4 app:app", Count(4)),
        ("python -m gunicorn -w 4 app:app", Count(4)),
        ("python3.11 -u -W ignore -m gunicorn -w 4 app:app", Count(4)),
        ("dumb-init -- gunicorn -w 4 app:app", Count(4)),
        ("tini -g -- gunicorn -w 4 app:app", Count(4)),
        ("env WORKERS=4 gunicorn -w $WORKERS app:app", UNKNOWN),
        ("env WEB_CONCURRENCY=4 gunicorn app:app", Count(4)),
        ("WEB_CONCURRENCY=4 uvicorn app:app", Count(4)),
        ("wait-for-it db:5432 -- gunicorn -w 4 app:app", Count(4)),
        ("./wait-for-it.sh db:5432 -- gunicorn -w 4 app:app", Count(4)),
        ("./docker-entrypoint.sh gunicorn -w 4 app:app", Count(4)),
        ("opentelemetry-instrument gunicorn -w 4 app:app", Count(4)),
        ("gosu app gunicorn -w 4 app:app", Count(4)),
        ("GUNICORN_CMD_ARGS='-w 4' gunicorn app:app", Count(4)),
        ("GUNICORN_CMD_ARGS='-w 4' gunicorn -w 2 app:app", Count(2)),
    ],
)
def test_the_workers_of_a_server_are_counted(text: str, workers: Count) -> None:
    found = serving(text)
    assert (found.module, found.workers) == ("app", workers)


@pytest.mark.parametrize(
    "text",
    [
        "pip install gunicorn",
        "apt-get install -y uwsgi",
        "echo gunicorn -w 4 app:app",
        "pkill gunicorn",
        "which uvicorn",
        "gunicorn --check-config app:app",
        "uvicorn --version",
        "flask db upgrade",
        "python manage.py migrate",
        "fastapi --help",
        "sh -c 'echo \"gunicorn -w 4 app:app'",
        "",
    ],
)
def test_what_serves_nothing_is_no_server(text: str) -> None:
    command = CommandLine(tuple(text.split()), PLACE, "compose", "web")
    assert list(servings(Facts([command], 2026))) == []


def test_variables_of_the_unit_are_known_and_the_command_line_wins() -> None:
    assert serving("gunicorn -w $WORKERS app:app", WORKERS="3").workers == Count(3)
    assert serving("gunicorn app:app", WEB_CONCURRENCY="3").workers == Count(3)
    assert serving("gunicorn -w 2 app:app", WEB_CONCURRENCY="3").workers == Count(2)
    assert serving("granian app:app", GRANIAN_WORKERS="3").workers == Count(3)


@pytest.mark.parametrize(
    ("text", "preload"),
    [
        ("gunicorn -w 4 --preload app:app", True),
        ("gunicorn -w 4 --reload app:app", False),
        ("uwsgi -p 4 -w app:app", True),
        ("uwsgi -p 4 -w app:app --lazy-apps", False),
        ("python manage.py runserver 0.0.0.0:8000", False),
    ],
)
def test_who_imports_the_app_before_the_fork(text: str, preload: bool) -> None:
    assert serving(text).preload == preload


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("celery -A shop worker", "worker"),
        ("celery -A shop worker -B", "worker with beat"),
        ("celery -A shop worker --beat -l info", "worker with beat"),
        ("celery -A shop worker -EB", "worker with beat"),
        ("celery worker -A shop -l info -B", "worker with beat"),
        ("celery -A shop worker -b redis://localhost", "worker"),
        ("celery -A shop -b redis://localhost worker -c 4", "worker"),
        ("celery -A shop worker -n B", "worker"),
        ("celery -A shop worker -Q B,C", "worker"),
        ("celery -A shop beat", "beat"),
        ("celery -A shop beat -l info --pidfile=", "beat"),
        ("poetry run celery -A shop beat", "beat"),
        ("python -m celery -A shop beat", "beat"),
    ],
)
def test_a_celery_is_a_worker_a_beat_or_both(text: str, kind: str) -> None:
    assert (celery(text).kind, celery(text).app) == (kind, "shop")


def test_the_scheduler_of_a_beat_is_read_and_a_workers_state_file_is_none() -> None:
    assert celery("celery -A shop beat -S redbeat.RedBeatScheduler").scheduler == "redbeat.RedBeatScheduler"
    assert celery("celery -A shop beat --scheduler=cronce").scheduler == "cronce"
    assert celery("celery -A shop worker -B --scheduler cronce").scheduler == "cronce"
    assert celery("celery -A shop worker -B -S cronce").scheduler == ""


def test_celery_multi_starts_as_many_workers_as_it_is_told() -> None:
    assert celery("celery multi start 3 -A shop -B").copies == Count(3)
    assert celery("celery multi start w1 w2 -A shop -B").copies == Count(2)
    assert list(celeries(facts_of("celery multi stop 3 -A shop"))) == []
    assert list(celeries(facts_of("celery -A shop inspect ping"))) == []


def test_a_python_program_is_a_module_or_a_file() -> None:
    assert [one.what for one in runnings(facts_of("python -m shop.jobs --once"))] == ["shop.jobs"]
    assert [one.what for one in runnings(facts_of("python -u shop/jobs.py"))] == ["shop/jobs.py"]
    assert [one.copies for one in runnings(facts_of("python jobs.py", copies=3))] == [Count(3)]
    assert [one.copies for one in runnings(facts_of("python jobs.py", copies=None))] == [UNKNOWN]


def test_the_commands_in_a_text_for_a_shell_are_told_apart() -> None:
    text = "cd /app; X=1 gunicorn \\\n -w $(nproc) app:app > log 2>&1 || exit 1\nwait"
    found = list(programs(("sh", "-c", text), {}))
    assert [one.program for one in found] == ["cd", "gunicorn", "exit", "wait"]
    assert (found[1].arguments, found[1].environment) == (("-w", "$(nproc)", "app:app"), {"X": "1"})


def test_shells_in_shells_come_to_an_end() -> None:
    text = "gunicorn app:app"
    for _ in range(6):
        text = shlex.join(["sh", "-c", text])
    assert list(programs(tuple(shlex.split(text)), {})) == []


STEPS = """\
import multiprocessing
import os
from multiprocessing import cpu_count

_cores = multiprocessing.cpu_count()
_default = min(2 * _cores + 1, 8)
few = 2
asked = int(os.environ["N"])
loop = loop + 1
"""


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("4", Count(4)),
        ("multiprocessing.cpu_count() * 2 + 1", SEVERAL),
        ("cpu_count()", SEVERAL),
        ("int(os.environ.get('WORKERS', '4'))", Count(4)),
        ("int(os.getenv('WORKERS', 4))", Count(4)),
        ("int(os.environ['WORKERS'])", UNKNOWN),
        ("some()", UNKNOWN),
        ("int(os.getenv('GUNICORN_WORKERS', _default))", SEVERAL),
        ("int(os.getenv('GUNICORN_WORKERS', few))", Count(2)),
        ("max(few, asked)", UNKNOWN),
        ("'few'", UNKNOWN),
        ("loop", UNKNOWN),
    ],
)
def test_a_number_in_a_settings_file_is_read_as_far_as_it_is_known(
    tmp_path: Path, expression: str, number: Count
) -> None:
    """A web app whose workers were counted in two steps was told to have an unknown number of them."""
    tree = {
        "app.py": "app = None\n",
        "deploy.py": f"{STEPS}workers = {expression}\n",
        "Procfile": "web: gunicorn -c deploy.py app:app\n",
    }
    [server] = report_on(tmp_path, tree).facts.conclude(servings)
    assert server.workers == number

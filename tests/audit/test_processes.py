"""A scheduler is found where more than one process starts it, and nowhere else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cronce_audit.engine import audit, files
from cronce_audit.model import Confidence, LockDeclared, Severity
from tests.audit.trees import findings_in, report_on

JOBS = """\
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(print, "cron", hour=12, id="noon", replace_existing=True)
scheduler.start()
"""
FLASK = "from flask import Flask\nimport jobs\n\napp = Flask(__name__)\n"
FOUR = "web: gunicorn -w 4 app:app\n"


def ours(root: Path, tree: Mapping[str, str]) -> list[str]:
    """What more than one process starts; not what one starts, or what cannot be told (CR206)."""
    found = report_on(root, tree).findings
    return [f"{each.rule} {each.place}" for each in found if each.rule.startswith("CR2") and each.rule != "CR206"]


def doubtful(root: Path, tree: Mapping[str, str]) -> list[str]:
    """What cannot be told: `jobs.py:5`, at low confidence."""
    found = report_on(root, tree).findings
    return [str(each.place) for each in found if each.rule == "CR206" and each.confidence is Confidence.LOW]


def message(root: Path, tree: Mapping[str, str]) -> str:
    [found] = [each for each in report_on(root, tree).findings if each.rule.startswith("CR2")]
    return found.message


GATED = """\
import os

from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")
if os.getenv("RUN_JOBS", "0").lower() in ("1", "true"):
    scheduler.start()
"""


@pytest.mark.parametrize(
    ("environment", "says", "doubts"),
    [
        ("RUN_JOBS=0", [], []),
        ("RUN_JOBS=True", ["CR201 app.py:9"], []),
        ("RUN_JOBS=$RUN_JOBS", [], ["app.py:9"]),
        ("OTHER=1", [], ["app.py:9"]),
    ],
)
def test_a_gate_is_as_what_deploys_the_app_sets_it(
    tmp_path: Path, environment: str, says: list[str], doubts: list[str]
) -> None:
    tree = {
        "app.py": GATED,
        "Dockerfile": 'FROM python:3.12\nCOPY . .\nCMD ["gunicorn", "-w", "4", "app:app"]\n',
        "compose.yml": f"services:\n  web:\n    build: .\n    environment:\n      - {environment}\n",
    }
    assert (ours(tmp_path, tree), doubtful(tmp_path, tree)) == (says, doubts)


SETTINGS = """\
from pydantic_settings import BaseSettings

class Settings(BaseSettings):
    enable_scheduler: bool = True

settings = Settings()
"""


@pytest.mark.parametrize(
    "gate",
    [
        "settings.enable_scheduler",
        "settings.enable_scheduler is True",
        "not settings.enable_scheduler == False",
        'config("ENABLE_SCHEDULER", default=True, cast=bool)',
        'env.bool("ENABLE_SCHEDULER", True)',
        'os.getenv("ENABLE_SCHEDULER", "true") == "true"',
    ],
)
@pytest.mark.parametrize(
    ("api", "own", "says"),
    [
        ("false", "true", []),
        ("true", "false", ["CR201 app.py:9"]),
        ("false", "false", []),
    ],
)
def test_a_gate_is_judged_for_each_service(tmp_path: Path, gate: str, api: str, own: str, says: list[str]) -> None:
    """Before, `enable_scheduler` was taken for what a process remembers of itself, and so was on in the API, of which
    the service beside it has the scheduler."""
    compose = f"""\
services:
  api:
    build: .
    environment:
      ENABLE_SCHEDULER: "{api}"
  scheduler:
    build: .
    command: gunicorn -w 1 app:app
    environment:
      ENABLE_SCHEDULER: "{own}"
"""
    app = GATED.replace('os.getenv("RUN_JOBS", "0").lower() in ("1", "true")', gate)
    app = app.replace("import os\n", "import os\nfrom settings import config, env, settings", 1)
    tree = {"app.py": app, "settings.py": SETTINGS, "Dockerfile": IN_FOUR, "compose.yml": compose}
    assert ours(tmp_path, tree) == says


@pytest.mark.parametrize(
    ("set_to", "says"),
    [
        ("$(( $(nproc) * 2 + 1 ))", ["CR201 jobs.py:5"]),
        ("3", ["CR201 jobs.py:5"]),
        ("1", []),
        ("$(cat workers)", []),
    ],
)
def test_a_script_sets_the_workers_by_variables(tmp_path: Path, set_to: str, says: list[str]) -> None:
    script = f'#!/bin/sh\nMANY={set_to}\nWORKERS=${{WORKERS:-$MANY}}\nuvicorn app:app --workers "$WORKERS"\n'
    assert ours(tmp_path, {"app.py": FLASK, "jobs.py": JOBS, "start.sh": script}) == says


def test_a_service_sets_the_workers_of_what_its_image_starts(tmp_path: Path) -> None:
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "Dockerfile": 'FROM python:3.12\nCOPY . .\nCMD ["gunicorn", "app:app"]\n',
        "compose.yml": "services:\n  web:\n    build: .\n    environment:\n      WEB_CONCURRENCY: 3\n",
    }
    assert ours(tmp_path, tree) == ["CR201 jobs.py:5"]


@pytest.mark.parametrize(
    "command",
    [
        "gunicorn -w 4 app:app",
        "gunicorn --workers=4 app:app",
        "uvicorn --workers 4 app:app",
        "hypercorn --workers 4 app:app",
        "gunicorn -w $(nproc) app:app",
        "sh -c 'exec gunicorn -w ${WORKERS:-4} app:app'",
        "uwsgi --processes 4 --lazy-apps -w app:app",
        "gunicorn -w 4 > /dev/null app:app",
    ],
)
def test_a_scheduler_that_is_started_at_import_is_in_every_worker(tmp_path: Path, command: str) -> None:
    assert ours(tmp_path, {"app.py": FLASK, "jobs.py": JOBS, "Procfile": f"web: {command}\n"}) == ["CR201 jobs.py:5"]


@pytest.mark.parametrize(
    "command",
    [
        "gunicorn app:app",
        "gunicorn -w 1 app:app",
        "gunicorn -w $WORKERS app:app",
        "gunicorn -w 4 --preload app:app",
        "uvicorn app:app",
        "uvicorn --workers 4 --reload app:app",
        "uwsgi --processes 4 -w app:app",
        "gunicorn -w 4 other:app",
        "waitress-serve app:app",
        "python app.py",
        "flask --app app run",
    ],
)
def test_one_process_or_an_unknown_number_is_no_finding(tmp_path: Path, command: str) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "other.py": "app = None\n", "Procfile": f"web: {command}\n"}
    assert [one for one in ours(tmp_path, tree) if not one.startswith("CR206")] == []


def test_the_message_names_the_server_its_place_and_the_number(tmp_path: Path) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": FOUR}
    assert message(tmp_path, tree) == (
        "BackgroundScheduler is started when jobs is imported, in each of the 4 gunicorn workers (Procfile:1): "
        "every job runs at least 4 times"
    )


def test_workers_and_replicas_multiply(tmp_path: Path) -> None:
    compose = """\
        services:
          web:
            image: shop
            command: gunicorn -w 4 app:app
            deploy:
              replicas: 3
        """
    tree = {"app.py": FLASK, "jobs.py": JOBS, "compose.yml": compose}
    assert message(tmp_path, tree).endswith(
        "in each of the 4 gunicorn workers (compose.yml:4), in each of the 3 copies of `web` (compose.yml:6): "
        "every job runs 12 times"
    )


def test_the_copies_of_a_service_count_where_its_image_has_the_command(tmp_path: Path) -> None:
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "Dockerfile": 'FROM python:3.12\nENV TZ=UTC\nCMD ["gunicorn", "app:app"]\n',
        "compose.yml": "services:\n  web:\n    build: .\n    deploy:\n      replicas: 3\n",
    }
    assert ours(tmp_path, tree) == ["CR202 jobs.py:5"]


def test_behind_each_number_is_the_line_that_says_it(tmp_path: Path) -> None:
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "Dockerfile": 'FROM python:3.12\nENV TZ=UTC\nCMD ["gunicorn", "-w", "4", "app:app"]\n',
        "compose.yml": "services:\n  web:\n    build: .\n    deploy:\n      replicas: 2\n",
    }
    assert message(tmp_path, tree).endswith(
        "in each of the 4 gunicorn workers (Dockerfile:3), in each of the 2 copies of `web` (compose.yml:5): "
        "every job runs 8 times"
    )
    assert message(tmp_path, {"Dockerfile": 'FROM python:3.12\nCMD ["gunicorn", "app:app"]\n'}).endswith(
        "in each of the 2 copies of `web` (compose.yml:5), each with gunicorn (Dockerfile:2): every job runs 2 times"
    )


def test_workers_that_are_counted_when_they_start(tmp_path: Path) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": "web: gunicorn app:app\n"}
    settings = "import multiprocessing\nworkers = multiprocessing.cpu_count() * 2 + 1\n"
    assert message(tmp_path, {**tree, "gunicorn.conf.py": settings}).endswith(
        "in each of several gunicorn workers (Procfile:1; gunicorn.conf.py counts processors): every job runs several"
        " times"
    )
    assert message(tmp_path, {"gunicorn.conf.py": "workers = 4\n"}).endswith(
        "in each of the 4 gunicorn workers (Procfile:1; gunicorn.conf.py): every job runs at least 4 times"
    )


def test_of_two_scripts_of_one_name_the_one_that_is_copied_or_near_is_read(tmp_path: Path) -> None:
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "docker/entrypoint.sh": "#!/bin/sh\nexec gunicorn app:app\n",
        "other/entrypoint.sh": "#!/bin/sh\nexec true\n",
        "Dockerfile": 'FROM python:3.12\nCOPY docker/entrypoint.sh /entrypoint.sh\nENTRYPOINT ["/entrypoint.sh"]\n',
        "compose.yml": "services:\n  web:\n    build: .\n    scale: 3\n",
    }
    assert ours(tmp_path, tree) == ["CR202 jobs.py:5"]
    beside = 'FROM python:3.12\nCOPY . /app\nENTRYPOINT ["/app/entrypoint.sh"]\n'
    assert ours(tmp_path, {"Dockerfile": beside}) == []
    assert ours(tmp_path, {"entrypoint.sh": "#!/bin/sh\nexec gunicorn app:app\n"}) == ["CR202 jobs.py:5"]


def test_a_script_that_a_container_starts_is_read(tmp_path: Path) -> None:
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "start.sh": "#!/bin/sh\npython manage.py migrate\nexec gunicorn -w 4 app:app\n",
        "Dockerfile": 'FROM python:3.12\nCMD ["./start.sh"]\n',
    }
    assert ours(tmp_path, tree) == ["CR201 jobs.py:5"]


def test_replicas_of_a_program_that_runs_a_scheduler_are_found(tmp_path: Path) -> None:
    jobs = """\
        from apscheduler.schedulers.blocking import BlockingScheduler

        if __name__ == "__main__":
            BlockingScheduler(timezone="UTC").start()
        """
    compose = "services:\n  jobs:\n    image: shop\n    command: python -m jobs\n    scale: {}\n"
    assert ours(tmp_path, {"jobs.py": jobs, "compose.yml": compose.format(2)}) == ["CR202 jobs.py:4"]
    assert ours(tmp_path, {"jobs.py": jobs, "compose.yml": compose.format(1)}) == []


@pytest.mark.parametrize("where", ["app", "shop/web", "src/shop/web"])
def test_the_app_is_found_where_it_is_and_what_it_imports_too(tmp_path: Path, where: str) -> None:
    folder = where.rpartition("/")[0]
    inside = f"{folder}/" if folder else ""
    package = {f"{inside}__init__.py": ""} if folder else {}
    module = where.removeprefix("src/").replace("/", ".")
    app = "from flask import Flask\nfrom {} import jobs\napp = Flask(__name__)\n".format("." if folder else "other")
    other = {} if folder else {"other/__init__.py": ""}
    jobs = f"{inside}jobs.py" if folder else "other/jobs.py"
    tree = {**package, **other, f"{where}.py": app, jobs: JOBS, "Procfile": f"web: gunicorn -w 4 {module}:app\n"}
    assert ours(tmp_path, tree) == [f"CR201 {jobs}:5"]


def test_an_import_in_a_function_is_less_sure(tmp_path: Path) -> None:
    app = "from flask import Flask\n\ndef create_app():\n    import jobs\n    return Flask(__name__)\n"
    tree = {"app.py": app, "jobs.py": JOBS, "Procfile": "web: gunicorn -w 4 'app:create_app()'\n"}
    [found] = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR201"]
    assert (found.severity.word, found.confidence.word) == ("info", "low")
    assert found.message.endswith("; the files do not show for certain that this app is the one that is deployed there")


SWITCHED = """\
import os
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(print, "interval", minutes=5)
{guard}scheduler.start()
"""
IN_FOUR = 'FROM python\nCMD ["gunicorn", "-w", "4", "app:app"]\n'


@pytest.mark.parametrize(
    ("guard", "deployed", "severity", "why"),
    [
        ("", {"Dockerfile": IN_FOUR}, "error", ""),
        ("if os.environ['MODE'] != 'testing': ", {"Dockerfile": IN_FOUR}, "error", ""),
        ("", {"start.sh": "gunicorn -w 4 app:app\n"}, "info", "do not show who runs this command"),
        ("if os.getenv('JOBS', '1') == '1': ", {"Dockerfile": IN_FOUR}, "info", "unless a setting makes"),
        (
            "",
            {"Dockerfile": IN_FOUR, "Procfile": "web: gunicorn -w 1 app:app\n"},
            "info",
            "`gunicorn` (Procfile:1) starts one",
        ),
    ],
)
def test_a_scheduler_in_every_worker_is_an_error_only_where_the_evidence_is_complete(
    tmp_path: Path, guard: str, deployed: Mapping[str, str], severity: str, why: str
) -> None:
    tree = {"app.py": SWITCHED.format(guard=guard), **deployed}
    [found] = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR201"]
    assert found.severity.word == severity
    assert why in found.message


FACTORY = """\
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

def create_app():
    app = Flask(__name__)
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.start()
    return app
"""


def test_a_factory_that_the_server_calls_is_an_import(tmp_path: Path) -> None:
    procfile = "web: gunicorn -w 4 'app:create_app()'\n"
    assert ours(tmp_path, {"app.py": FACTORY, "Procfile": procfile}) == ["CR201 app.py:7"]


def test_a_factory_that_another_module_calls_is_followed(tmp_path: Path) -> None:
    wsgi = "from app import create_app\n\napp = create_app()\n"
    tree = {"app.py": FACTORY, "wsgi.py": wsgi, "Procfile": "web: gunicorn -w 4 wsgi:app\n"}
    assert ours(tmp_path, tree) == ["CR201 app.py:7"]


def test_a_function_that_nothing_calls_starts_nothing(tmp_path: Path) -> None:
    assert ours(tmp_path, {"app.py": FACTORY, "Procfile": "web: gunicorn -w 4 app:app\n"}) == []


LIFESPAN = """\
from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

@asynccontextmanager
async def lifespan(app):
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start()
    yield
    scheduler.shutdown()

app = FastAPI(lifespan=lifespan)
"""


def test_a_lifespan_runs_in_every_worker_also_of_a_preloaded_app(tmp_path: Path) -> None:
    procfile = "web: gunicorn --preload -k uvicorn.workers.UvicornWorker -w 4 app:app\n"
    assert ours(tmp_path, {"app.py": LIFESPAN, "Procfile": procfile}) == ["CR201 app.py:9"]


@pytest.mark.parametrize(
    "hook",
    [
        '@app.on_event("startup")\nasync def begin():\n    scheduler.start()\n',
        'async def begin():\n    scheduler.start()\n\napp.add_event_handler("startup", begin)\n',
        '@app.on_event("startup")\nasync def first():\n    begin()\n\ndef begin():\n    scheduler.start()\n',
    ],
)
def test_start_up_hooks_run_in_every_worker(tmp_path: Path, hook: str) -> None:
    head = """\
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

app = FastAPI()
scheduler = AsyncIOScheduler(timezone="UTC")
"""
    tree = {"app.py": head + hook, "Procfile": "web: uvicorn --workers 4 app:app\n"}
    line = next(number for number, text in enumerate((head + hook).split("\n"), 1) if "scheduler.start" in text)
    assert ours(tmp_path, tree) == [f"CR201 app.py:{line}"]


def test_a_shutdown_hook_starts_nothing(tmp_path: Path) -> None:
    app = """\
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
        from fastapi import FastAPI

        app = FastAPI()
        scheduler = AsyncIOScheduler(timezone="UTC")

        @app.on_event("shutdown")
        async def end():
            scheduler.start()
        """
    assert ours(tmp_path, {"app.py": app, "Procfile": "web: uvicorn --workers 4 app:app\n"}) == []


@pytest.mark.parametrize(
    ("hook", "found"),
    [("post_fork", True), ("post_worker_init", True), ("when_ready", False), ("on_starting", False)],
)
def test_hooks_of_gunicorn_run_in_the_workers_or_in_the_master(tmp_path: Path, hook: str, found: bool) -> None:
    settings = f"""\
        from apscheduler.schedulers.background import BackgroundScheduler

        workers = 4

        def {hook}(server, worker=None):
            BackgroundScheduler(timezone="UTC").start()
        """
    tree = {"app.py": "app = None\n", "gunicorn.conf.py": settings, "Procfile": "web: gunicorn app:app\n"}
    assert ours(tmp_path, tree) == (["CR201 gunicorn.conf.py:6"] if found else [])


def test_the_settings_file_of_gunicorn_says_how_many(tmp_path: Path) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": "web: gunicorn -c conf/gunicorn.py app:app\n"}
    many = "import multiprocessing\nworkers = multiprocessing.cpu_count() * 2 + 1\n"
    assert ours(tmp_path, {**tree, "conf/gunicorn.py": many}) == ["CR201 jobs.py:5"]
    assert ours(tmp_path, {**tree, "conf/gunicorn.py": f"{many}preload_app = True\n"}) == []
    assert ours(tmp_path, {**tree, "conf/gunicorn.py": "bind = ':80'\n"}) == []


def test_the_ini_file_of_uwsgi_says_how_many(tmp_path: Path) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": "web: uwsgi --ini uwsgi.ini\n"}
    settings = "[uwsgi]\nmodule = app:app\nprocesses = 4  ; four\n"
    assert ours(tmp_path, {**tree, "uwsgi.ini": f"{settings}lazy-apps = true\n"}) == ["CR201 jobs.py:5"]
    assert ours(tmp_path, {**tree, "uwsgi.ini": settings}) == []


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ('uvicorn.run("app:app", workers=4)', True),
        ('uvicorn.run("app:app", workers=N)', True),
        ('uvicorn.run("app:app")', False),
        ('uvicorn.run("app:app", workers=4, reload=True)', False),
        ("uvicorn.run(app, workers=4)", False),
        ('uvicorn.run("app:app", workers=settings())', False),
        ('uvicorn.Server(uvicorn.Config("app:app", workers=4)).run()', False),
    ],
)
def test_workers_that_code_asks_for_count(tmp_path: Path, call: str, found: bool) -> None:
    app = f"{LIFESPAN}N = 2\nif __name__ == '__main__':\n    import uvicorn\n    {call}\n"
    assert ours(tmp_path, {"app.py": app}) == (["CR201 app.py:9"] if found else [])


@pytest.mark.parametrize(("workers", "found"), [("", True), (", workers=ONE", False), (", workers=settings()", True)])
def test_one_worker_that_code_asks_for_was_decided(tmp_path: Path, workers: str, found: bool) -> None:
    app = f"{LIFESPAN}ONE = 1\nif __name__ == '__main__':\n    import uvicorn\n    uvicorn.run('app:app'{workers})\n"
    assert findings_in(tmp_path, {"app.py": app}, "CR206") == (["CR206 app.py:9"] if found else [])


@pytest.mark.parametrize(
    "guard",
    [
        'if os.environ.get("RUN_SCHEDULER"):',
        "if settings.SCHEDULER_ENABLED:",
        "if ENABLED:",
        "if scheduler and is_leader():",
        "if is_leader():",
        'if os.environ.get("WERKZEUG_RUN_MAIN") == "true":',
        "if app.debug:",
        'with FileLock("/tmp/scheduler.lock"):',
        "with lock:",
        'if "runserver" in sys.argv:',
    ],
)
def test_a_condition_or_a_lock_around_the_start_is_respected(tmp_path: Path, guard: str) -> None:
    assert ours(tmp_path, _guarded(guard)) == []


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ('if os.environ.get("RUN_SCHEDULER"):', "os.environ.get('RUN_SCHEDULER')"),
        ("if settings.SCHEDULER_ENABLED:", "settings.SCHEDULER_ENABLED"),
        ("if ENABLED:", "app.ENABLED"),
        ("if is_leader():", "app.is_leader()"),
        ("if os.getpid() == 1:", "os.getpid() == 1"),
        ("with lock:", "app.lock"),
        ("if settings.try_lock():", "settings.try_lock()"),
    ],
)
def test_a_guard_that_cannot_be_judged_is_told_with_what_to_look_at(tmp_path: Path, guard: str, said: str) -> None:
    """Before, it was as if there were no scheduler: the audit was clean, and the checklist said ✓."""
    tree = _guarded(guard)
    assert doubtful(tmp_path, tree) == ["app.py:16"]
    [found] = [each for each in report_on(tmp_path, tree).findings if each.rule == "CR206"]
    assert f"`{said}` (app.py)" in found.message
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    "guard",
    [
        'if os.environ.get("RUN_SCHEDULER", "1") == "1":',
        'if os.getenv("RUN_SCHEDULER", "true").lower() == "true":',
        'if os.getenv("RUN_SCHEDULER", "True").lower() in ("1", "true", "yes"):',
        'if int(os.getenv("RUN_SCHEDULER", "1")):',
        'if config("RUN_SCHEDULER", default=True):',
        "if DEFAULT_ON:",
        "if Settings().scheduler_enabled:",
    ],
)
def test_a_gate_that_is_on_by_default_is_on(tmp_path: Path, guard: str) -> None:
    tree = _guarded(guard)
    more = "DEFAULT_ON = os.getenv('X', 'on') == 'on'\nclass Settings:\n    scheduler_enabled: bool = True\n"
    tree["app.py"] = tree["app.py"].replace(guard, f"{more}{guard}")
    assert ours(tmp_path, tree) == ["CR201 app.py:19"]


@pytest.mark.parametrize(("default", "found"), [("True", ["CR201 jobs.py:7"]), ("False", [])])
def test_the_default_of_a_parameter_is_a_gate(tmp_path: Path, default: str, found: list[str]) -> None:
    jobs = f"""\
        from apscheduler.schedulers.background import BackgroundScheduler

        scheduler = BackgroundScheduler(timezone="UTC")

        def create_app(start={default}):
            if start:
                scheduler.start()
        """
    tree = {"jobs.py": jobs, "Procfile": 'web: gunicorn -w 4 "jobs:create_app()"\n'}
    assert ours(tmp_path, tree) == found
    assert doubtful(tmp_path, tree) == ([] if found else ["jobs.py:7"])


@pytest.mark.parametrize("call", ["pool.acquire()", "db.release()", "wall.block()", "unlock(door)", "clock()"])
def test_a_word_that_ends_like_a_lock_is_none(tmp_path: Path, call: str) -> None:
    """Before, any call that ended in lock, leader, lease or acquire silenced the finding."""
    app = STARTING.replace("scheduler.start()", f"{call}\nscheduler.start()")
    assert ours(tmp_path, {"app.py": app, "Procfile": FOUR}) == ["CR201 app.py:7"]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_lock_of_the_machine_holds_back_the_workers_of_one_machine(tmp_path: Path, copies: int) -> None:
    app = STARTING.replace("scheduler.start()", 'with FileLock("/tmp/scheduler.lock"):\n    scheduler.start()').replace(
        "from ap", "from filelock import FileLock\nfrom ap", 1
    )
    compose = f"services:\n  web:\n    image: shop\n    command: gunicorn -w 4 app:app\n    scale: {copies}\n"
    assert ours(tmp_path, {"app.py": app, "compose.yml": compose}) == ([] if copies == 1 else ["CR202 app.py:8"])


HELPER = """\
import redis

client = redis.Redis()

def {name}():
    {body}
"""


@pytest.mark.parametrize(
    ("name", "body", "guard", "held"),
    [
        ("is_leader", "return client.set('leader', 1, nx=True, ex=30)", "if is_leader():", True),
        ("first", "return client.lock('scheduler').acquire(blocking=False)", "if first():", True),
        ("is_leader", "return bool(client.get('leader'))", "if is_leader():", False),
        ("is_leader", "return True", "if is_leader():", False),
    ],
)
def test_a_helper_of_the_repository_is_followed_into_its_body(
    tmp_path: Path, name: str, body: str, guard: str, held: bool
) -> None:
    """A lock that is only asked about is no lock."""
    app = STARTING.replace("scheduler.start()", f"{guard}\n    scheduler.start()")
    tree = {
        "app.py": f"from leading import {name}\n{app}",
        "leading.py": HELPER.format(name=name, body=body),
        "Procfile": FOUR,
    }
    assert (ours(tmp_path, tree), doubtful(tmp_path, tree)) == ([], [] if held else ["app.py:8"])


LOCKED_BY = """\
from apscheduler.schedulers.background import BackgroundScheduler
from shop import locking

scheduler = BackgroundScheduler(timezone="UTC")


def nightly():
    BODY


scheduler.add_job(nightly, "cron", hour=12, id="noon")
scheduler.start()
"""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print(1)", (Severity.ERROR, Confidence.HIGH)),
        ("with locking.job_lock():\n        print(1)", (Severity.INFO, Confidence.LOW)),
    ],
)
def test_where_each_job_may_be_locked_the_workers_are_something_to_look_at(
    tmp_path: Path, body: str, says: tuple[Severity, Confidence]
) -> None:
    tree = {"app.py": FLASK, "jobs.py": LOCKED_BY.replace("BODY", body), "Procfile": FOUR}
    found = report_on(tmp_path, tree).findings
    assert [(one.severity, one.confidence) for one in found if one.rule == "CR201"] == [says]


def test_a_scheduler_of_which_no_job_is_seen_is_something_to_look_at(tmp_path: Path) -> None:
    jobs = JOBS.replace('scheduler.add_job(print, "cron", hour=12, id="noon", replace_existing=True)\n', "")
    found = report_on(tmp_path, {"app.py": FLASK, "jobs.py": jobs, "Procfile": FOUR}).findings
    assert [(one.severity, one.confidence) for one in found if one.rule == "CR201"] == [(Severity.INFO, Confidence.LOW)]


def test_a_lock_that_the_config_declares_is_one(tmp_path: Path) -> None:
    app = STARTING.replace("scheduler.start()", "if house.only_here():\n    scheduler.start()")
    tree = {"app.py": f"import house\n{app}", "Procfile": FOUR}
    for path, text in tree.items():
        (tmp_path / path).write_text(text)
    paths = list(files(tmp_path, []))
    assert [one.rule for one in audit(tmp_path, paths, 2026).findings if one.rule.startswith("CR2")] == ["CR206"]
    known = [LockDeclared("house.only_here")]
    assert [one.rule for one in audit(tmp_path, paths, 2026, known=known).findings if one.rule.startswith("CR2")] == []


@pytest.mark.parametrize(
    "command", ["gunicorn app:app", "uvicorn app:app", "waitress-serve app:app", "uwsgi --processes 4 -w app:app"]
)
def test_a_scheduler_inside_a_web_app_with_one_process_is_worth_knowing(tmp_path: Path, command: str) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": f"web: {command}\n"}
    assert findings_in(tmp_path, tree, "CR206") == ["CR206 jobs.py:5"]
    assert doubtful(tmp_path, tree) == []


@pytest.mark.parametrize("command", ["gunicorn -w 1 app:app", "uvicorn --workers 1 app:app"])
def test_one_worker_that_somebody_has_decided_is_fine(tmp_path: Path, command: str) -> None:
    tree = {"app.py": FLASK, "jobs.py": JOBS, "Procfile": f"web: {command}\n"}
    assert findings_in(tmp_path, tree, "CR206") == []


@pytest.mark.parametrize(
    "guard",
    [
        "if not scheduler.running:",
        "if scheduler is not None:",
        "if scheduler:",
        "if scheduler is None or not scheduler.running:",
        "if not (scheduler is not None and scheduler.running):",
        "with threads:",
        "if not app.debug:",
        'if not app.debug or os.environ.get("WERKZEUG_RUN_MAIN") == "true":',
        'if os.environ.get("WERKZEUG_RUN_MAIN") != "true":',
        'if "migrate" not in sys.argv:',
        'if not app.config.get("TESTING"):',
        'if not app.config["TESTING"]:',
        "if not settings.TESTING and not app.testing:",
        "if not reloading:",
        "try:",
    ],
)
def test_what_holds_in_every_worker_is_no_guard(tmp_path: Path, guard: str) -> None:
    assert ours(tmp_path, _guarded(guard)) == ["CR201 app.py:16"]


def test_a_start_that_happens_once_in_a_process_happens_in_each(tmp_path: Path) -> None:
    app = """\
        import threading

        from apscheduler.schedulers.background import BackgroundScheduler
        from flask import Flask

        app = Flask(__name__)
        scheduler = None
        lock = threading.Lock()

        def begin():
            global scheduler
            if scheduler is not None:
                return
            with lock:
                scheduler = BackgroundScheduler(timezone="UTC")
                scheduler.start()

        begin()
        """
    assert ours(tmp_path, {"app.py": app, "Procfile": FOUR}) == ["CR201 app.py:16"]


def _guarded(guard: str) -> dict[str, str]:
    end = "except RuntimeError:\n    pass\n" if guard == "try:" else ""
    app = f"""\
import os
import sys

import settings
import threading
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

app = Flask(__name__)
ENABLED = False
if settings.on:
    ENABLED = True
lock, reloading = settings.lock, os.environ.get("WERKZEUG_RUN_MAIN") == "true"
scheduler, threads = BackgroundScheduler(timezone="UTC"), threading.Lock()
{guard}
    scheduler.start()
{end}"""
    return {"app.py": app, "Procfile": FOUR}


@pytest.mark.parametrize(
    "before",
    [
        "fcntl.flock(open('/tmp/lock', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "socket.socket().bind(('127.0.0.1', 47200))",
        "if not redis.set('scheduler', 1, nx=True): return",
        "if not db.execute(text('SELECT pg_try_advisory_lock(1)')).scalar(): return",
        "db.execute(text('SELECT pg_advisory_lock(1)'))",
        "lock.acquire()",
        "if not lock.acquire(blocking=False): return",
        "protect(scheduler, Cronce())",
    ],
)
def test_a_lock_that_is_taken_before_the_start_is_respected(tmp_path: Path, before: str) -> None:
    app = f"""\
import fcntl
import socket
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask
{"from cronce.integrations.apscheduler import protect" if "protect" in before else ""}

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")

def begin():
    {before}
    scheduler.start()

begin()
"""
    assert ours(tmp_path, {"app.py": app, "Procfile": FOUR}) == []


GUARDED = """\
import fcntl
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import text

from db import engine

def shared(function):
    def wrapper():
        with engine.begin() as connection:
            if connection.execute(text("SELECT pg_try_advisory_xact_lock(7)")).scalar():
                function()
    return wrapper

@shared
def bill():
    ...

def clean():
    with open("/tmp/clean.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

def remind():
    ...

scheduler = BackgroundScheduler(timezone="UTC")
# jobs
scheduler.start()
"""


@pytest.mark.parametrize(
    ("jobs", "copies", "found"),
    [
        (["bill"], 1, False),
        (["bill", "clean"], 1, False),
        (["bill", "clean"], 2, True),
        (["bill"], 2, False),
        (["bill", "remind"], 1, True),
        (["remind"], 1, True),
    ],
)
def test_jobs_that_take_a_lock_themselves_may_be_in_every_worker(
    tmp_path: Path, jobs: list[str], copies: int, found: bool
) -> None:
    added = "".join(f'scheduler.add_job({job}, "cron", hour=12, id="{job}")\n' for job in jobs)
    text = GUARDED.replace("# jobs\n", added)
    compose = f"services:\n  web:\n    image: shop\n    command: gunicorn -w 4 app:app\n    scale: {copies}\n"
    tree = {"app.py": FLASK, "jobs.py": text, "compose.yml": compose}
    assert [one[:5] for one in ours(tmp_path, tree)] == (["CR201"] if found else [])
    released = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR307"]
    assert {(one.severity, one.snippet.split("(")[1].split(",")[0]) for one in released} == {
        (Severity.INFO, job) for job in jobs if job != "remind"
    }  # the lock is let go when the job ends: it does not make a slot run once


@pytest.mark.parametrize("paused", ["paused=True", "paused=settings.PAUSED", "**options"])
def test_a_scheduler_that_may_only_add_jobs_is_not_told(tmp_path: Path, paused: str) -> None:
    jobs = JOBS.replace("start()", f"start({paused})")
    assert ours(tmp_path, {"app.py": FLASK, "jobs.py": jobs, "Procfile": FOUR}) == []


def test_the_add_job_of_others_is_not_ours(tmp_path: Path) -> None:
    jobs = "from mine import Scheduler\nscheduler = Scheduler()\nscheduler.add_job(print)\nscheduler.start()\n"
    assert ours(tmp_path, {"app.py": FLASK, "jobs.py": jobs, "Procfile": FOUR}) == []


RELOADED = """\
import os
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")
{guard}
    scheduler.start()

if __name__ == "__main__":
    app.run({options})
"""


@pytest.mark.parametrize(
    "guard",
    [
        'if os.environ.get("WERKZEUG_RUN_MAIN") == "true":',
        'if os.environ.get("WERKZEUG_RUN_MAIN"):',
        'if os.environ.get("WERKZEUG_RUN_MAIN") != "true":',
        'if not app.debug or os.environ.get("WERKZEUG_RUN_MAIN") == "true":',
        'if not (app.debug and not os.environ.get("WERKZEUG_RUN_MAIN")):',
        'if "WERKZEUG_RUN_MAIN" in os.environ:',
        "if not is_running_from_reloader():",
        "if not app.debug:",
    ],
)
def test_the_guards_against_a_reloader_are_understood(tmp_path: Path, guard: str) -> None:
    app = f"from werkzeug.serving import is_running_from_reloader\n{RELOADED.format(guard=guard, options='debug=True')}"
    assert ours(tmp_path, {"app.py": app}) == []


READY = """\
from django.apps import AppConfig

class ShopConfig(AppConfig):
    name = "shop"

    def ready(self):
        from shop import jobs
        {guard}
        jobs.begin()
"""
BEGIN = """\
from apscheduler.schedulers.background import BackgroundScheduler

def begin():
    BackgroundScheduler(timezone="UTC").start()
"""


def _django(guard: str = "", **more: str) -> dict[str, str]:
    files = {"shop/__init__.py": "", "shop/apps.py": READY.format(guard=guard), "shop/jobs.py": BEGIN}
    wsgi = "from django.core.wsgi import get_wsgi_application\n\napplication = get_wsgi_application()\n"
    return {**files, "shop/wsgi.py": wsgi, **more}


def test_djangos_ready_runs_in_every_command(tmp_path: Path) -> None:
    assert findings_in(tmp_path, _django(), "CR206") == ["CR206 shop/jobs.py:4"]


def test_djangos_ready_runs_in_every_worker(tmp_path: Path) -> None:
    assert ours(tmp_path, _django(Procfile="web: gunicorn -w 4 shop.wsgi\n")) == ["CR201 shop/jobs.py:4"]


@pytest.mark.parametrize(
    "guard",
    [
        'if not os.environ.get("RUN_MAIN"): return',
        'if "runserver" not in sys.argv: return',
        'if os.environ.get("SCHEDULER") != "1": return',
        "if settings.QUIET: return",
    ],
)
def test_conditions_in_ready_are_respected(tmp_path: Path, guard: str) -> None:
    tree = _django(guard, Procfile="web: gunicorn -w 4 shop.wsgi\n")
    tree["shop/apps.py"] = "import os, sys\nfrom django.conf import settings\n" + tree["shop/apps.py"]
    assert ours(tmp_path, tree) == []


def test_a_start_at_import_that_others_import_is_told_as_information(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"app.py": FLASK, "jobs.py": JOBS})
    assert [(one.rule, str(one.place), one.severity.word) for one in report.findings if one.rule[:3] == "CR2"] == [
        ("CR206", "jobs.py:5", "info")
    ]
    assert ours(tmp_path / "alone", {"jobs.py": JOBS}) == []


@pytest.mark.parametrize(
    "store",
    [
        'jobstores={"default": SQLAlchemyJobStore(url="postgresql://db/jobs")}',
        'jobstores={"default": {"type": "sqlalchemy", "url": "postgresql://db/jobs"}}',
    ],
)
def test_a_persistent_store_that_several_processes_reach_is_reported(tmp_path: Path, store: str) -> None:
    jobs = "from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore\n" + JOBS.replace(
        'timezone="UTC"', f'timezone="UTC", {store}'
    )
    tree = {"app.py": FLASK, "jobs.py": jobs}
    assert ours(tmp_path, {**tree, "Procfile": FOUR}) == ["CR201 jobs.py:6"]
    assert ours(tmp_path, {**tree, "Procfile": "web: gunicorn app:app\n"}) == []


def test_a_store_that_the_replicas_of_a_program_share_is_reported(tmp_path: Path) -> None:
    jobs = """\
        from apscheduler.jobstores.redis import RedisJobStore
        from apscheduler.schedulers.blocking import BlockingScheduler

        def main():
            scheduler = BlockingScheduler(timezone="UTC")
            scheduler.add_jobstore(RedisJobStore())
            scheduler.start()

        if __name__ == "__main__":
            main()
        """
    compose = "services:\n  jobs:\n    image: shop\n    command: python jobs.py\n    scale: 2\n"
    assert message(tmp_path, {"jobs.py": jobs, "compose.yml": compose}).endswith(
        "in each of the 2 copies of `jobs` (compose.yml:5), each with `jobs.py` (compose.yml:4): every job runs 2 times"
        "; the job store that they share (RedisJobStore, jobs.py:6) does not keep them apart"
    )


@pytest.mark.parametrize(
    ("loop", "severity"),
    [
        (
            "import schedule\ndef work():\n    while True:\n        schedule.run_pending()\n        time.sleep(1)\n",
            "error",
        ),
        ("def work():\n    while True:\n        report()\n        time.sleep(3600)\n", "info"),
    ],
)
def test_a_loop_in_a_thread_of_a_web_app_is_in_every_worker(tmp_path: Path, loop: str, severity: str) -> None:
    app = f"import threading\nimport time\nfrom flask import Flask\n{loop}\napp = Flask(__name__)\n"
    app += "threading.Thread(target=work, daemon=True).start()\n"
    report = report_on(tmp_path, {"app.py": app, "Procfile": FOUR})
    assert [one.severity.word for one in report.findings if one.rule in ("CR201", "CR207")] == [severity]


@pytest.mark.parametrize(
    "loop",
    [
        "def work():\n    while True:\n        poll()\n        time.sleep(1)\n",
        "def work():\n    for name in names:\n        load(name)\n        time.sleep(3600)\n",
        "def work():\n    time.sleep(3600)\n",
    ],
)
def test_what_polls_or_ends_is_no_timer(tmp_path: Path, loop: str) -> None:
    app = f"import threading\nimport time\nfrom flask import Flask\n{loop}\napp = Flask(__name__)\n"
    app += "threading.Thread(target=work, daemon=True).start()\n"
    assert ours(tmp_path, {"app.py": app, "Procfile": FOUR}) == []


def test_repeat_every_and_tasks_are_in_every_worker(tmp_path: Path) -> None:
    app = """\
        import asyncio
        from fastapi import FastAPI
        from fastapi_utils.tasks import repeat_every

        app = FastAPI()

        @app.on_event("startup")
        @repeat_every(seconds=3600)
        async def clean():
            ...

        async def hourly():
            while True:
                await asyncio.sleep(60 * 60)

        @app.on_event("startup")
        async def begin():
            asyncio.create_task(hourly())
        """
    tree = {"app.py": app, "Procfile": "web: uvicorn --workers 2 app:app\n"}
    assert ours(tmp_path, tree) == ["CR207 app.py:8", "CR207 app.py:12"]
    one = report_on(tmp_path, {**tree, "Procfile": "web: uvicorn app:app\n"}).findings
    assert [(each.rule, each.severity.word) for each in one] == [("CR207", "info")] * 2
    assert ours(tmp_path, {**tree, "Procfile": "web: uvicorn --workers 1 app:app\n"}) == []


def test_the_rules_of_others_are_not_repeated(tmp_path: Path) -> None:
    """One cause, one finding: four workers on one store are told as that, and not as four schedulers as well."""
    jobs = JOBS.replace('timezone="UTC"', 'timezone="UTC", jobstores={"default": {"type": "sqlalchemy", "url": "x"}}')
    tree = {"app.py": FLASK, "jobs.py": jobs, "Procfile": FOUR}
    assert findings_in(tmp_path, tree, "CR201", "CR202") == ["CR201 jobs.py:5"]


PLAIN = "from flask import Flask\n\napp = Flask(__name__)\n"
STARTING = """\
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")
scheduler.start()
"""
SVC1, SVC2 = {"svc1/app.py": STARTING}, {"svc2/app.py": PLAIN}
EIGHT = 'FROM python\nCMD ["gunicorn", "-w", "8", "app:app"]\n'
SINGLE = 'FROM python\nCMD ["gunicorn", "app:app"]\n'


def composed(**services: str) -> dict[str, str]:
    """A compose file: what each service builds or takes, and what it starts."""
    lines = [f"  {name}:\n    {text.replace('; ', chr(10) + '    ')}\n" for name, text in services.items()]
    return {"compose.yml": "services:\n" + "".join(lines)}


@pytest.mark.parametrize(
    "tree",
    [
        {**SVC1, **SVC2, "svc1/Procfile": "web: gunicorn app:app\n", "svc2/Procfile": "web: gunicorn -w 8 app:app\n"},
        {**SVC1, **SVC2, "svc1/Dockerfile": SINGLE, "svc2/Dockerfile": EIGHT},
        {**SVC1, **SVC2, "svc1/docker/Dockerfile": SINGLE, "svc2/docker/Dockerfile": EIGHT},
        {
            **SVC1,
            **SVC2,
            **composed(
                one="build: ./svc1; command: gunicorn app:app", two="build: ./svc2; command: gunicorn -w 8 app:app"
            ),
        },
        {
            **SVC1,
            **composed(
                one="build: ./svc1; command: gunicorn app:app", two="image: other; command: gunicorn -w 8 app:app"
            ),
        },
        {"app.py": STARTING, "Procfile": "web: gunicorn app:app\n", "examples/Dockerfile": EIGHT},
        {
            "app.py": STARTING,
            "Procfile": "web: gunicorn app:app\n",
            "examples/app.py": PLAIN,
            "examples/Dockerfile": EIGHT,
        },
        {"a/app.py": STARTING, "a/Dockerfile": SINGLE, "b/app.py": "def app(e, s): return []\n", "b/Dockerfile": EIGHT},
        {**SVC1, **SVC2, "Procfile": "web: gunicorn -w 8 app:app\n"},
        {**SVC1, **SVC2, "svc2/run.sh": "#!/bin/sh\nexec gunicorn -w 8 app:app\n"},
        {**SVC1, "svc1/gunicorn.conf.py": "workers = 8\n", **SVC2, "svc2/Procfile": "web: gunicorn app:app\n"},
        {**SVC1, "svc2/jobs.py": "", **composed(jobs="build: ./svc2; command: python -m app; scale: 2")},
        {
            "sched/main.py": JOBS,
            "api/server.py": "",
            **composed(api="build: ./api; command: python main.py; scale: 4"),
        },
    ],
)
def test_another_service_is_not_charged_with_what_is_called_the_same(tmp_path: Path, tree: Mapping[str, str]) -> None:
    assert ours(tmp_path, tree) == []


@pytest.mark.parametrize(
    "tree",
    [
        {"svc1/Procfile": "web: gunicorn -w 8 app:app\n"},
        {"svc1/Dockerfile": EIGHT, "svc2/Dockerfile": SINGLE},
        {"svc1/docker/web/Dockerfile": EIGHT},
        composed(one="build: ./svc1; command: gunicorn -w 8 app:app"),
        {"svc1/Dockerfile": EIGHT, **composed(one="build: ./svc1")},
        {"svc1/Dockerfile": EIGHT, **composed(one="build: ./svc1; command: gunicorn app:app", two="build: ./svc1")},
        {"svc1/run.sh": "#!/bin/sh\nexec gunicorn -w 8 app:app\n"},
        {"svc1/gunicorn.conf.py": "workers = 8\n", "svc1/Procfile": "web: gunicorn app:app\n"},
        {
            "svc1/deploy/gunicorn.py": "workers = 8\n",
            "svc1/Procfile": "web: gunicorn -c python:deploy.gunicorn app:app\n",
        },
    ],
)
def test_the_service_that_is_meant_is_found_beside_others(tmp_path: Path, tree: Mapping[str, str]) -> None:
    assert ours(tmp_path, {**SVC1, **SVC2, **tree}) == ["CR201 svc1/app.py:6"]


def test_the_words_of_an_image_count_where_a_container_starts_them(tmp_path: Path) -> None:
    tree = {"app.py": STARTING, "Dockerfile": EIGHT}
    assert ours(tmp_path, tree) == ["CR201 app.py:6"]
    assert ours(tmp_path, {**tree, **composed(web="build: .")}) == ["CR201 app.py:6"]
    assert ours(tmp_path, {**tree, **composed(web="build: .; command: gunicorn -w 1 app:app")}) == []


def test_many_functions_that_call_many_are_asked_in_no_time(tmp_path: Path) -> None:
    """Twelve to the power of six ways lead to the start; the one that counts is behind none of the conditions."""
    layers = [
        f"def f{layer}_{number}(x):\n"
        + "".join(f"    f{layer + 1}_{(number + step) % 16}(x)\n" for step in range(12))
        + f"    if x > {number}:\n        f{layer + 1}_{number}(x)\n"
        for layer in range(5)
        for number in range(16)
    ]
    ends = [f"def f5_{number}(x):\n    scheduler.start()\n" for number in range(16)]
    app = "\n".join([STARTING.replace("scheduler.start()\n", ""), *layers, *ends, "f0_0(1)\n"])
    found = ours(tmp_path, {"app.py": app, "Procfile": FOUR})
    assert len(found) == 16
    assert {one.split()[0] for one in found} == {"CR201"}


@pytest.mark.parametrize("first", ["if os.environ.get('X'):\n        start()", "with lock:\n        start()"])
def test_an_unguarded_way_is_seen_behind_a_guarded_one(tmp_path: Path, first: str) -> None:
    app = STARTING.replace("scheduler.start()", "def start():\n    scheduler.start()\n").replace(
        "from ap", "import os\nfrom ap", 1
    )
    two = f"{app}\ndef a():\n    {first}\n\ndef b():\n    start()\n\na()\n"
    assert ours(tmp_path, {"app.py": two, "Procfile": FOUR}) == []
    assert ours(tmp_path, {"app.py": f"{two}b()\n", "Procfile": FOUR}) == ["CR201 app.py:8"]


@pytest.mark.parametrize(
    ("opened", "locks"),
    [
        ("os.open(path, os.O_CREAT | os.O_EXCL)", True),
        ("os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)", True),
        ("os.open(path, os.O_CREAT)", False),
        ('open(path, "x")', True),
        ('open(path, mode="xb")', True),
        ('pathlib.Path(path).open("x")', True),
        ('open("x")', False),
        ('open(path, "w")', False),
    ],
)
def test_a_file_that_only_one_process_can_make_is_a_lock(tmp_path: Path, opened: str, locks: bool) -> None:
    guard = f"try:\n    {opened}\nexcept FileExistsError:\n    pass\nelse:\n    scheduler.start()\n"
    app = "import os\nimport pathlib\n" + STARTING.replace("scheduler.start()\n", guard)
    assert ours(tmp_path, {"app.py": app, "Procfile": FOUR}) == ([] if locks else ["CR201 app.py:13"])


@pytest.mark.parametrize(
    ("bound", "locks"),
    [
        ('log = structlog.get_logger().bind(app="x")', False),
        ("session.bind(engine)", False),
        ('sock = socket.socket()\nsock.bind(("127.0.0.1", 47200))', True),
        ('from socket import socket as Socket\nSocket().bind("\\0shop")', True),
        ('with socket.socket() as sock:\n    sock.bind(("127.0.0.1", 47200))', True),
        ('def hold():\n    sock = socket.socket()\n    sock.bind(("", 1))\n    start()\nhold()', True),
    ],
)
def test_only_a_socket_is_bound_by_one_process(tmp_path: Path, bound: str, locks: bool) -> None:
    app = STARTING.replace("scheduler.start()\n", "def start():\n    scheduler.start()\n")
    end = "" if "start()" in bound else "start()\n"
    tree = {"app.py": f"{app}import socket\nimport structlog\n{bound}\n{end}", "Procfile": FOUR}
    assert ours(tmp_path, tree) == ([] if locks else ["CR201 app.py:7"])


def test_a_program_sees_the_folders_beside_it_also_in_a_package(tmp_path: Path) -> None:
    """An image copies app.py and build/ to its root; that their folder has an `__init__.py` says nothing there."""
    jobs = "from apscheduler.schedulers.background import BackgroundScheduler\n\n"
    jobs += "def start():\n    BackgroundScheduler(timezone='UTC').start()\n"
    tree = {
        "mail/__init__.py": "",
        "mail/app.py": "from flask import Flask\nfrom build.jobs import start\n\napp = Flask(__name__)\nstart()\n",
        "mail/build/__init__.py": "",
        "mail/build/jobs.py": jobs,
        "mail/Dockerfile": 'FROM python\nCOPY . .\nCMD ["gunicorn", "-w", "2", "app:app"]\n',
    }
    assert ours(tmp_path, tree) == ["CR201 mail/build/jobs.py:4"]


LOCKED = """\
import redis
from apscheduler.schedulers.blocking import BlockingScheduler

client = redis.Redis()
scheduler = BlockingScheduler(timezone="UTC")


def alone(function):
    def wrapper():
        {body}
            return function()
    return wrapper


@scheduler.scheduled_job("interval", minutes=5, id="charge")
@alone
def charge(): ...


@scheduler.scheduled_job("interval", minutes=5, id="renew")
def renew(): ...
"""


@pytest.mark.parametrize(
    ("body", "released"),
    [
        ("with client.lock('charge', timeout=60):", True),
        ("if client.set('lock:charge', 1, nx=True, ex=240):", False),
    ],
)
def test_a_decorator_of_the_repository_that_skips_unless_locked_is_a_lock(
    tmp_path: Path, body: str, released: bool
) -> None:
    """What it is worth depends on whether it is let go at the end; and the job without it is told."""
    found = findings_in(tmp_path, {"jobs.py": LOCKED.format(body=body)}, "CR307", "CR308")
    assert found == (["CR307 jobs.py:15"] if released else []) + ["CR308 jobs.py:20"]


def test_an_update_that_starts_the_new_copy_first_runs_two_schedulers(tmp_path: Path) -> None:
    """The order stands in a file that is laid over, the command in the last stage of the Dockerfile."""
    tree = {
        "app.py": FLASK,
        "jobs.py": JOBS,
        "Dockerfile": 'FROM python AS base\nFROM base AS production\nCMD ["uvicorn", "app:app"]\n',
        "docker-compose.yml": "services:\n  web:\n    build: {context: ., target: production}\n",
        "docker-compose.prod.yml": "services:\n  web:\n    image: shop\n    deploy:\n      replicas: 1\n"
        "      update_config:\n        order: start-first\n",
    }
    assert findings_in(tmp_path, tree, "CR521") == ["CR521 docker-compose.prod.yml:7"]
    tree["docker-compose.yml"] = tree["docker-compose.yml"].replace("production", "base")
    assert findings_in(tmp_path, tree, "CR521") == []


_ONE_UVICORN = "uvicorn app:app --host 0.0.0.0"


@pytest.mark.parametrize(
    ("deployed", "found"),
    [
        ({"Dockerfile": f"FROM python\nCMD {_ONE_UVICORN}\n"}, ["CR206 jobs.py:5"]),
        ({"Dockerfile": f"FROM python\nCMD {_ONE_UVICORN} --workers 1\n"}, []),
        ({"compose.yaml": f"services:\n  web:\n    image: shop\n    command: {_ONE_UVICORN}\n"}, []),
        ({"web.service": f"[Service]\nExecStart=/usr/bin/{_ONE_UVICORN}\n"}, []),
        ({"Procfile": f"web: {_ONE_UVICORN}\n"}, ["CR206 jobs.py:5"]),
        ({"Procfile": f"web: {_ONE_UVICORN} --workers 1\n"}, []),
        ({"run.sh": f"#!/bin/sh\n{_ONE_UVICORN}\n"}, []),
        (
            {
                "Dockerfile": f"FROM python\nCMD {_ONE_UVICORN}\n",
                "other.py": "import redis\n\ndef report():\n"
                "    with redis.Redis().lock('report', timeout=9):\n        pass\n",
            },
            ["CR206 jobs.py:5"],
        ),
    ],
)
def test_one_process_that_is_deployed_is_fine_unless_more_are_expected(
    tmp_path: Path, deployed: Mapping[str, str], found: list[str]
) -> None:
    assert findings_in(tmp_path, {"app.py": FLASK, "jobs.py": JOBS} | dict(deployed), "CR206") == found


@pytest.mark.parametrize(("guard", "found"), [("", ["CR521"]), ("if settings.JOBS: ", [])])
def test_what_cannot_be_told_is_no_warning_about_a_rollout(tmp_path: Path, guard: str, found: list[str]) -> None:
    deployment = """\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 1
          template:
            spec:
              containers:
                - {name: web, image: shop, command: [uvicorn, "app:app"]}
        """
    jobs = JOBS.replace("scheduler.start()", f"{guard}scheduler.start()").replace(
        "from ap", "import settings\nfrom ap", 1
    )
    tree = {"app.py": FLASK, "jobs.py": jobs, "k8s/web.yaml": deployment}
    loud = [one.rule for one in report_on(tmp_path, tree).findings if one.rule == "CR521"]
    assert loud == found
    assert doubtful(tmp_path, tree) == ([] if found else ["jobs.py:6"])


LOOP = """\
import asyncio
from fastapi import FastAPI
from app.settings import settings

app = FastAPI()

async def work():
    while True:
        sync()
        await asyncio.sleep(SPAN)

@app.on_event("startup")
async def begin():
    asyncio.create_task(work())
"""


@pytest.mark.parametrize(
    ("span", "says"),
    [
        ("settings.SYNC_INTERVAL", ["CR207 app.py:7"]),
        ("settings.interval_hours * 3600", ["CR207 app.py:7"]),
        ("settings.BACKOFF", []),
        ("backoff", []),
        ("5", []),
    ],
)
def test_a_loop_whose_time_is_a_setting_is_a_job(tmp_path: Path, span: str, says: list[str]) -> None:
    assert findings_in(tmp_path, {"app.py": LOOP.replace("SPAN", span)}, "CR207") == says


@pytest.mark.parametrize(
    ("name", "span", "says"),
    [
        ("scheduler_loop", "60", ["CR207 app.py:7"]),
        ("send_due_reminders", "10", ["CR207 app.py:7"]),
        ("send_due_reminders", "1", []),
        ("refresh_job_cache", "60", []),
        ("watch", "60", []),
    ],
)
def test_a_loop_that_is_a_job_by_its_name_may_sleep_less(tmp_path: Path, name: str, span: str, says: list[str]) -> None:
    app = LOOP.replace("SPAN", span).replace("work()", f"{name}()")
    assert findings_in(tmp_path, {"app.py": app}, "CR207") == says


@pytest.mark.parametrize(("command", "says"), [("uvicorn app:app --reload", 1), ("uvicorn app:app", 0)])
def test_a_server_that_watches_files_deploys_nothing(tmp_path: Path, command: str, says: int) -> None:
    compose = f"services:\n  web:\n    build: .\n    command: {command}\n"
    tree = {"app.py": LOOP.replace("SPAN", "3600"), "docker-compose.yml": compose}
    assert len(findings_in(tmp_path, tree, "CR207")) == says


@pytest.mark.parametrize(("workers", "says"), [("$WORKERS", ["CR207 app.py:7"]), ("1", [])])
def test_a_number_of_workers_that_a_variable_gives_decides_nothing(
    tmp_path: Path, workers: str, says: list[str]
) -> None:
    tree = {"app.py": LOOP.replace("SPAN", "3600"), "Procfile": f"web: uvicorn app:app --workers {workers}\n"}
    assert findings_in(tmp_path, tree, "CR207") == says

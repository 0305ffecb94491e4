"""One job in one process, in any language: whose hour it is, whether the next run waits, what it sends."""

from pathlib import Path

import pytest

from cronce_audit.job_rules import hour_of, is_frequent
from cronce_audit.model import Severity
from tests.audit.trees import findings_in, report_on

CRON = "const cron = require('node-cron');\n"
NEST = "import { Cron, CronExpression } from '@nestjs/schedule';\nexport class Jobs {\n"
SPRING = "import org.springframework.scheduling.annotation.*;\nclass Jobs {\n"


@pytest.mark.parametrize(
    ("pattern", "is_hour"),
    [
        ("0 9 * * *", True),
        ("0 0 9 * * MON-FRI", True),
        ("0 9-17 * * *", True),
        ("EVERY_DAY_AT_MIDNIGHT", True),
        ("EVERY_WEEK", True),
        ("@daily", True),
        ("0 * * * *", False),
        ("*/5 * * * *", False),
        ("0 0 */6 * * *", False),
        ("EVERY_HOUR", False),
        ("@hourly", False),
        ("", False),
        (None, False),
    ],
)
def test_a_schedule_is_about_an_hour_of_the_day(pattern: str | None, is_hour: bool) -> None:
    assert hour_of(pattern) == is_hour


@pytest.mark.parametrize(
    ("pattern", "often"),
    [
        ("* * * * *", True),
        ("*/5 * * * *", True),
        ("*/30 * * * * *", True),
        ("0 */2 * * * *", True),
        ("EVERY_30_SECONDS", True),
        ("EVERY_MINUTE", True),
        ("*/10 * * * *", False),
        ("0 9 * * *", False),
        ("EVERY_10_MINUTES", False),
        (None, False),
    ],
)
def test_a_schedule_comes_often(pattern: str | None, often: bool) -> None:
    assert is_frequent(pattern) == often


@pytest.mark.parametrize(
    ("path", "code", "line"),
    [
        ("app.js", CRON + "cron.schedule('0 9 * * *', () => work());\n", 2),
        ("app.js", "const { CronJob } = require('cron');\nnew CronJob('0 0 9 * * *', work, null, true);\n", 2),
        ("jobs.ts", NEST + "  @Cron(CronExpression.EVERY_DAY_AT_2AM)\n  async run() {}\n}\n", 3),
        ("Jobs.java", SPRING + '@Scheduled(cron = "0 30 2 * * *") void run() {}\n}\n', 3),
        ("Jobs.kt", SPRING.replace(";", "") + '@Scheduled(cron = "0 30 2 * * *")\nfun run() {}\n}\n', 3),
        ("jobs.py", "import schedule\nschedule.every().monday.at('10:30').do(print)\n", 2),
    ],
)
def test_an_hour_without_a_zone_is_the_machines(tmp_path: Path, path: str, code: str, line: int) -> None:
    assert findings_in(tmp_path, {path: code}, "CR320") == [f"CR320 {path}:{line}"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("app.js", CRON + "cron.schedule('0 9 * * *', () => work(), { timezone: 'Asia/Seoul' });\n"),
        ("app.js", CRON + "cron.schedule('0 9 * * *', () => work(), options);\n"),
        ("app.js", CRON + "cron.schedule('0 * * * *', () => work());\n"),
        (
            "app.js",
            "const { CronJob } = require('cron');\nnew CronJob('0 0 9 * * *', work, null, true, 'Asia/Seoul');\n",
        ),
        ("jobs.ts", NEST + "  @Cron('0 9 * * *', { timeZone: 'UTC' })\n  async run() {}\n}\n"),
        ("Jobs.java", SPRING + '@Scheduled(cron = "0 30 2 * * *", zone = "UTC") void run() {}\n}\n'),
        ("jobs.py", "import schedule\nschedule.every().monday.at('10:30', 'UTC').do(print)\n"),
    ],
)
def test_an_hour_whose_zone_is_given_or_does_not_matter_is_silent(tmp_path: Path, path: str, code: str) -> None:
    assert findings_in(tmp_path, {path: code}, "CR320") == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("cron.schedule('* * * * *', async () => { await work(); });\n", True),
        ("cron.schedule('* * * * *', run);\nasync function run() { await work(); }\n", True),
        ("cron.schedule('* * * * *', () => work());\n", False),
        ("cron.schedule('0 * * * *', async () => { await work(); });\n", False),
        ("cron.schedule('* * * * *', async () => { await work(); }, { noOverlap: true });\n", False),
        ("cron.schedule('* * * * *', async () => { if (busy) return; busy = true; await work(); });\n", False),
        ("cron.schedule('* * * * *', async () => { if (await client.set('l', 1, 'NX')) await work(); });\n", False),
    ],
)
def test_a_frequent_run_that_waits_is_joined_by_the_next(tmp_path: Path, code: str, found: bool) -> None:
    assert findings_in(tmp_path, {"app.js": CRON + code}, "CR321") == ["CR321 app.js:2"] * found


@pytest.mark.parametrize(
    ("kind", "made", "job", "found"),
    [
        ("background.BackgroundScheduler", "", "async def job(): ...", True),
        ("blocking.BlockingScheduler", "", "async def job(): ...", True),
        ("background.BackgroundScheduler", "", "def job(): ...", False),
        ("background.BackgroundScheduler", "", "@wrapped\nasync def job(): ...", False),
        ("background.BackgroundScheduler", "executors={'default': own}", "async def job(): ...", False),
        ("asyncio.AsyncIOScheduler", "", "async def job(): ...", False),
    ],
)
def test_a_coroutine_in_a_thread_is_never_awaited(tmp_path: Path, kind: str, made: str, job: str, found: bool) -> None:
    module, name = kind.split(".")
    code = f"from apscheduler.schedulers.{module} import {name}\n{job}\ns = {name}({made})\n"
    report = report_on(tmp_path, {"app.py": f"{code}s.add_job(job, 'interval', hours=1)\n"})
    assert [one.severity for one in report.findings if one.rule == "CR113"] == [Severity.ERROR] * found


ASKING = "from apscheduler.schedulers.background import BackgroundScheduler\ns = BackgroundScheduler(timezone='UTC')\n"
ADDED = "    s.add_job(print, 'date', run_date=when)\n"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (f"{ASKING}@app.post('/x')\ndef ask():\n{ADDED}", True),
        (f"{ASKING}@bot.message_handler(commands=['x'])\ndef ask(m):\n{ADDED}", True),
        (f"{ASKING}def plan():\n{ADDED}def two():\n    plan()\n@app.get('/x')\ndef ask():\n    two()\n", True),
        (f"{ASKING}def begin():\n    s.start()\n{ADDED}", False),
        (f"{ASKING}@app.post('/x')\ndef ask():\n    ...\ndef other():\n{ADDED}", False),
        ("import schedule\n@bot.message(x)\nasync def ask(m):\n    schedule.every(2).hours.do(print)\n", True),
        ("import schedule\nschedule.every(2).hours.do(print)\n", False),
        (f"{ASKING}s.add_job(print, 'interval', hours=24)\ns.start()\n", True),
        (f"{ASKING}s.add_job(print, 'interval', days=1, next_run_time=now)\ns.start()\n", False),
        (f"{ASKING}s.add_job(print, 'interval', hours=1)\ns.start()\n", False),
    ],
)
def test_a_plan_in_memory_is_lost_with_the_process(tmp_path: Path, code: str, found: bool) -> None:
    assert len(findings_in(tmp_path, {"app.py": code}, "CR323")) == found


SCHEDULE = "const schedule = require('node-schedule');\n"
REGISTRY = (
    "import { SchedulerRegistry } from '@nestjs/schedule';\nexport class Plans {\n"
    "  constructor(private registry: SchedulerRegistry) {}\n"
)


@pytest.mark.parametrize(
    ("path", "code", "found"),
    [
        ("a.js", SCHEDULE + "function ask(date) { schedule.scheduleJob(date, () => work()); }\n", True),
        ("a.js", SCHEDULE + "function ask(id) { schedule.scheduleJob(id, new Date(0), () => work()); }\n", True),
        ("a.js", SCHEDULE + "schedule.scheduleJob(new Date(0), () => work());\n", False),
        ("a.js", SCHEDULE + "function begin(app) { schedule.scheduleJob('0 * * * *', () => work()); }\n", False),
        ("a.ts", REGISTRY + "  add(name: string, job) { this.registry.addCronJob(name, job); }\n}\n", True),
        ("a.ts", REGISTRY + "  add() { this.registry.addCronJob('a', this.job); }\n}\n", False),
        ("jobs/a.js", "setInterval(() => sendReminders(), 24 * 60 * 60 * 1000);\n", True),
        ("jobs/a.js", "setInterval(() => sendReminders(), 60 * 60 * 1000);\n", False),
    ],
)
def test_a_plan_in_the_memory_of_node_is_lost_with_it(tmp_path: Path, path: str, code: str, found: bool) -> None:
    assert len(findings_in(tmp_path, {path: code}, "CR323")) == found


def test_a_scheduler_is_known_from_a_module_that_only_imports_it(tmp_path: Path) -> None:
    code = "from apscheduler.schedulers.background import BlockingScheduler\ns = BlockingScheduler()\n"
    added = "s.add_job(print, 'cron', hour=9)\ns.start()\n"
    assert findings_in(tmp_path, {"app.py": code + added}, "CR110") == ["CR110 app.py:2"]


@pytest.mark.parametrize(
    ("made", "found"), [("misfire_grace_time=60", True), ("job_defaults={'coalesce': True}", False)]
)
def test_options_of_jobs_mean_nothing_to_a_scheduler(tmp_path: Path, made: str, found: bool) -> None:
    code = f"from apscheduler.schedulers.background import BackgroundScheduler\ns = BackgroundScheduler({made})\n"
    assert len(findings_in(tmp_path, {"app.py": code}, "CR105")) == found


@pytest.mark.parametrize(
    "state", ["self._running", "self.is_running", "_started", "self._task is not None", "SCHEDULER_STARTED.started"]
)
def test_what_a_process_remembers_of_itself_is_no_guard(tmp_path: Path, state: str) -> None:
    code = (
        "from apscheduler.schedulers.background import BackgroundScheduler\nfrom fastapi import FastAPI\n"
        "s = BackgroundScheduler(timezone='UTC')\napp = FastAPI()\n\n@app.on_event('startup')\ndef begin(self):\n"
        f"    if {state}:\n        return\n    s.start()\n"
    )
    tree = {"app.py": code, "Procfile": "web: uvicorn --workers 4 app:app\n"}
    assert findings_in(tmp_path, tree, "CR201", "CR206") == ["CR201 app.py:10"]


@pytest.mark.parametrize(
    "code",
    [
        "const job = {\n  schedule: '5 2 * * *',\n  start() { cron.schedule(this.schedule, () => work()); },\n};\n",
        "const at = {\n  night: '5 2 * * *',\n  day: '0 * * * *',\n};\ncron.schedule(at.night, () => work());\n",
        "class Jobs {\n  static NIGHT = '5 2 * * *';\n\n  on() { cron.schedule(Jobs.NIGHT, () => work()); }\n}\n",
    ],
)
def test_a_schedule_is_read_from_the_object_or_class_around_it(tmp_path: Path, code: str) -> None:
    line = code.count("\n", 0, code.index("cron.schedule")) + 2
    assert findings_in(tmp_path, {"jobs.js": CRON + code}, "CR320") == [f"CR320 jobs.js:{line}"]


ARQ = """\
from datetime import datetime, timezone

from arq import cron


class WorkerSettings:
    cron_jobs = [cron(sync, minute=5), cron(digest, hour=18, minute=0), cron(remind, hour=9, minute=0)]
"""


def test_the_hours_of_arq_are_the_machines_unless_its_worker_has_a_zone(tmp_path: Path) -> None:
    assert findings_in(tmp_path, {"worker.py": ARQ}, "CR320") == ["CR320 worker.py:7"]
    zoned = f"{ARQ}    timezone = timezone.utc\n"
    assert findings_in(tmp_path / "zoned", {"worker.py": zoned}, "CR320") == []


def test_a_job_of_each_month_in_memory_is_not_made_up_for(tmp_path: Path) -> None:
    tree = {
        "jobs.js": CRON
        + "cron.schedule('0 0 1 * *', () => bill(), { timezone: 'UTC' });\n"
        + "cron.schedule('0 0 * * 1', () => sum(), { timezone: 'UTC' });\n",
        "jobs.py": (
            "from apscheduler.schedulers.blocking import BlockingScheduler\n"
            "s = BlockingScheduler(timezone='UTC')\n"
            "s.add_job(bill, 'cron', day=1, hour=0)\n"
            "s.add_job(bill, 'cron', day=1, hour=0, misfire_grace_time=3600)\n"
        ),
    }
    assert findings_in(tmp_path, tree, "CR323") == ["CR323 jobs.js:2", "CR323 jobs.py:3"]


ROWS = """\
from arq import cron

async def send_due(ctx):
    rows = db.execute(text("SELECT id FROM mails WHERE status = 'pending'"))
    for row in rows:
        TAKE

async def other(ctx):
    for row in db.execute(text("SELECT id FROM mails WHERE id = 7 AND kind = 1")):
        await pool.enqueue_job("send", row.id)

class WorkerSettings:
    cron_jobs = [cron(send_due, second=0)]
"""
LOOP = """\
import asyncio

async def publish_scheduled():
    while True:
        for post in await db.posts.find({"status": "pending", "at": {"$lte": now()}}).to_list(100):
            await db.posts.update_one({FILTER}, {"$set": {"status": "publishing"}})
            await send(post)
        await asyncio.sleep(60)

asyncio.create_task(publish_scheduled())
"""
BEAT = """\
from celery import Celery
app = Celery("shop")
app.conf.beat_schedule = {"due": {"task": "shop.send_due", "schedule": 300.0}}

@app.task(name="shop.send_due")
def send_due():
    for mail in Mail.objects.filter(status="pending"):
        send.delay(mail.id)
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (ROWS.replace("TAKE", "await pool.enqueue_job('send', row.id)"), [4]),
        (ROWS.replace("TAKE", "print(row.id)"), []),
        (ROWS.replace("'pending'", "'pending' FOR UPDATE SKIP LOCKED", 1).replace("TAKE", "go.delay(row)"), []),
        (LOOP.replace("FILTER", '"_id": post["_id"]'), [5]),
        (LOOP.replace("FILTER", '"_id": post["_id"], "status": "pending"'), []),
        (BEAT, [7]),
        (BEAT.replace('"pending"', '"active"'), []),
    ],
)  # fmt: skip
def test_rows_that_are_read_as_due_and_taken_in_a_second_step(tmp_path: Path, code: str, lines: list[int]) -> None:
    found = [one for one in report_on(tmp_path, {"jobs.py": code}).findings if one.rule == "CR309"]
    assert [(one.place.line, one.severity) for one in found] == [(line, Severity.INFO) for line in lines]


CRON_JS = "const cron = require('node-cron');\ncron.schedule('0 3 * * *', () => bill());\n"


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("fly.toml", "[http_service]\n  auto_stop_machines = 'stop'\n  min_machines_running = 0\n", 2),
        ("fly.toml", "[http_service]\n  auto_stop_machines = true\n", 2),
        ("fly.toml", "[http_service]\n  auto_stop_machines = true\n  min_machines_running = 1\n", 0),
        ("fly.toml", "[http_service]\n  auto_stop_machines = 'off'\n", 0),
        ("render.yaml", "services:\n  - type: web\n    name: shop\n    plan: free\n", 4),
        ("render.yaml", "services:\n  - type: web\n    plan: starter\ndatabases:\n  - name: db\n    plan: free\n", 0),
        ("railway.json", '{"deploy": {"sleepApplication": true}}\n', 1),
        ("deploy.sh", "gcloud run deploy shop \\\n  --image=x \\\n  --min-instances=0\n", 3),
        ("deploy.sh", "gcloud run deploy shop --image=x\n", 1),
        ("deploy.sh", "gcloud run deploy shop \\\n  --min-instances 1\n", 0),
        ("deploy.sh", "gcloud run jobs deploy shop\n", 0),
        ("cloudbuild.yaml", "steps:\n- name: x\n  args: ['run', 'deploy', 'shop']\n", 3),
        ("cloudbuild.yaml", "steps:\n- name: x\n  args:\n  - 'run'\n  - 'deploy'\n  - '--min-instances=1'\n", 0),
        ("cloudbuild.yaml", "steps:\n- name: x\n  args:\n  - run\n  - deploy\n  - --min-instances=0\n", 6),
        ("api/fly.toml", "auto_stop_machines = true\n", 0),
    ],
)
def test_a_host_that_stops_the_app_between_requests(tmp_path: Path, path: str, text: str, line: int) -> None:
    says = [f"CR323 {path}:{line}"] if line else []
    assert findings_in(tmp_path, {path: text, "web/jobs.js": CRON_JS}, "CR323") == says
    assert findings_in(tmp_path / "without", {path: text, "web/index.js": "serve();\n"}, "CR323") == []


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("while true; do php artisan schedule:run; sleep 60; done", True),
        ("while :; do backup.sh; sleep 1d; done", True),
        ("while true; do backup.sh; sleep 86400; done", True),
        ("while true; do poll.sh; sleep 60; done", False),
        ("while ! nc -z db 5432; do sleep 1; done; php artisan schedule:work", False),
    ],
)
def test_a_loop_of_a_shell_as_scheduler(tmp_path: Path, command: str, is_told: bool) -> None:
    compose = f"services:\n  jobs:\n    image: shop\n    command: sh -c '{command}'\n"
    assert findings_in(tmp_path, {"compose.yaml": compose}, "CR323") == ["CR323 compose.yaml:4"] * is_told

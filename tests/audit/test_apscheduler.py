"""The rules for APScheduler: what they find, and above all what they leave alone."""

import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from cronce_audit.model import Facts, Guarded, Place, Severity, rules
from cronce_audit.python.facts import Bound, Call, Function, Module
from cronce_audit.python.schedulers import schedulers
from tests.audit.trees import findings_in, report_on

HEAD = """\
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
def sync(): ...
"""
STORE = 'SQLAlchemyJobStore(url="postgresql://db/jobs")'
KEPT = f"""{HEAD}
s = BackgroundScheduler(
    timezone="UTC", jobstores={{"default": {STORE}}}, job_defaults={{"misfire_grace_time": 60}}
)
"""


def found(tmp_path: Path, text: str, *rules: str, head: str = KEPT) -> list[str]:
    """Rules and the lines below the head."""
    places = findings_in(tmp_path, {"app.py": head + textwrap.dedent(text)}, *rules)
    start = head.count("\n")
    return [f"{rule} {int(place.rpartition(':')[2]) - start}" for rule, place in (each.split() for each in places)]


def loud(tmp_path: Path, text: str, *, head: str = KEPT) -> list[str]:
    """Whatever of APScheduler is told at warning or above."""
    report = report_on(tmp_path, {"app.py": head + textwrap.dedent(text)})
    assert not report.unparsed
    return [f.rule for f in report.findings if f.severity >= Severity.WARNING and f.rule.startswith("CR1")]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("s.add_job(sync, 'interval', hours=1)", ["CR101 1"]),
        ("s.add_job(sync, 'interval', hours=1, id=None)", ["CR101 1"]),
        ("import uuid\ns.add_job(sync, 'interval', hours=1, id=str(uuid.uuid4()), replace_existing=True)", ["CR101 2"]),
        ("import uuid\ns.add_job(sync, 'interval', hours=1, id=uuid.uuid4().hex)", ["CR101 2"]),
        ("@s.scheduled_job('interval', hours=1)\ndef tick(): ...", ["CR101 1"]),
        ("s.add_job(sync, CronTrigger(hour=4, timezone='UTC'))", ["CR101 1"]),
        ("s.add_job(sync, 'interval', hours=1, id='sync')", ["CR102 1"]),
        ("s.add_job(sync, 'interval', hours=1, id='sync', replace_existing=False)", ["CR102 1"]),
        ("def main():\n    for t in todo():\n        s.add_job(sync, 'cron', hour=4, id=t.id)", ["CR102 3"]),
        ("s.add_job(sync, 'interval', None, None, 'sync', hours=1)", ["CR102 1"]),
        ("def go(s):\n    s.add_job(sync, 'cron', hour=4)\ngo(s)", ["CR101 2"]),
        ("def begin():\n    s.add_job(sync, 'cron', hour=4)\n    s.start()", ["CR101 2"]),
    ],
)
def test_a_job_that_each_start_adds_to_a_store_that_remembers(text: str, rules: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, text, "CR101", "CR102") == rules


@pytest.mark.parametrize(
    "text",
    [
        "s.add_job(sync, 'interval', hours=1, id='sync', replace_existing=True)",
        "s.add_job(sync, 'interval', None, None, 'sync', None, 60, True, 1, None, 'default', 'default', True, hours=1)",
        "@s.scheduled_job('interval', hours=1, id='tick')\ndef tick(): ...",
        "s.add_job(sync, 'interval', hours=1, **options)",
        "s.add_job(sync, 'interval', hours=1, id='sync', replace_existing=REPLACE)",
        "s.add_job(sync)",
        "s.add_job(sync, 'date', run_date='2030-01-01')",
        "s.add_job(sync, trigger)",
        "@app.post('/jobs')\ndef create(body):\n    s.add_job(sync, 'interval', hours=body.hours)",
        "def add(hours):\n    s.add_job(sync, 'interval', hours=hours)",
        "@click.command()\ndef add(hours):\n    s.add_job(sync, 'interval', hours=hours)",
        "if not s.get_job('sync'):\n    s.add_job(sync, 'interval', hours=1, id='sync')",
        "def main():\n    if s.get_job('a') is None:\n        s.add_job(sync, 'interval', hours=1, id='a')",
        "s.remove_all_jobs()\ndef main():\n    s.add_job(sync, 'interval', hours=1)",
        "def stop():\n    s.remove_all_jobs()\ns.add_job(sync, 'interval', hours=1)",
        "def clear():\n    s.remove_job('a')\ndef main():\n    clear()\n    s.add_job(sync, 'interval', hours=1)",
        "def stop():\n    s.remove_job('a')\ns.add_job(sync, 'interval', hours=1, id='a')",
        "def main():\n    s.remove_job('sync')\n    s.add_job(sync, 'interval', hours=1, id='sync')",
        """
        from apscheduler.jobstores.base import ConflictingIdError
        try:
            s.add_job(sync, 'interval', hours=1, id='sync')
        except ConflictingIdError:
            pass
        """,
        "s.add_jobstore('memory', 'volatile')\ns.add_job(sync, 'interval', hours=1, jobstore='volatile')",
        "s.add_job(sync, 'interval', hours=1, jobstore=somewhere)",
        "other = Queue()\nother.add_job(sync, 'interval', hours=1)",
        "def go(queue):\n    queue.add_job(sync, 'interval', hours=1)\ngo(Queue())",
    ],
)
def test_a_job_that_a_restart_does_not_harm_is_left_alone(text: str, tmp_path: Path) -> None:
    assert loud(tmp_path, text) == []


@pytest.mark.parametrize(
    "made",
    [
        "BackgroundScheduler()",
        "BackgroundScheduler(jobstores={'default': {'type': 'memory'}})",
        "BackgroundScheduler(jobstores=stores())",
        "BackgroundScheduler(**options)",
        "BackgroundScheduler(config)",
        "BackgroundScheduler(jobstores=filled)\nfilled = {}\nfilled['default'] = SQLAlchemyJobStore()",
        "BackgroundScheduler(jobstores=filled)\nfilled = {}\nfilled.update(default=SQLAlchemyJobStore())",
        "BackgroundScheduler({'apscheduler.timezone': 'UTC'})",
        "make_scheduler()",
    ],
)
def test_without_a_store_that_is_known_to_survive_a_restart_nothing_is_said(made: str, tmp_path: Path) -> None:
    text = f"s = {made}\ns.add_job(sync, 'interval', hours=1)\ns.add_job(sync, 'interval', hours=1, id='sync')\n"
    assert loud(tmp_path, text, head=HEAD) == []


@pytest.mark.parametrize(
    "made",
    [
        f"s = BackgroundScheduler(jobstores={{'default': {STORE}}})",
        "s = BackgroundScheduler(jobstores={'default': {'type': 'sqlalchemy', 'url': 'postgresql://db/jobs'}})",
        "s = BackgroundScheduler({'apscheduler.jobstores.default': {'type': 'redis'}})",
        "s = BackgroundScheduler({'apscheduler.jobstores.default.class': 'apscheduler.jobstores.redis:RedisJobStore'})",
        f"s = BackgroundScheduler()\ns.add_jobstore({STORE})",
        "s = BackgroundScheduler()\ns.add_jobstore('redis', host='db')",
        "s = BackgroundScheduler()\ns.add_jobstore('mongodb', alias='default')",
        f"s = BackgroundScheduler()\ns.configure(jobstores={{'default': {STORE}}})",
        f"stores = {{'default': {STORE}}}\ns = BackgroundScheduler(jobstores=stores)",
        f"stores = dict(default={STORE})\ns = BackgroundScheduler(jobstores=stores)",
        f"def make():\n    s = BackgroundScheduler()\n    s.add_jobstore({STORE})\n    return s\ns = make()",
        f"class S(BackgroundScheduler): ...\ns = S(jobstores={{'default': {STORE}}})",
        "class Kept(SQLAlchemyJobStore): ...\ns = BackgroundScheduler(jobstores={'default': Kept(url=URL)})",
        "import django_apscheduler.jobstores as d\ns = BackgroundScheduler()\ns.add_jobstore(d.DjangoJobStore())",
        f"if x:\n    s = BackgroundScheduler(jobstores={{'default': {STORE}}})",
    ],
)
def test_a_store_is_known_however_it_is_given(made: str, tmp_path: Path) -> None:
    text = f"{made}\ns.add_job(sync, 'interval', minutes=1)\n"
    assert found(tmp_path, text, "CR101", head=HEAD) == [f"CR101 {text.count(chr(10))}"]


@pytest.mark.parametrize(
    ("given", "is_all"),
    [("", True), ("jobstores={'default': {'type': 'memory'}}", True), ("jobstores=found()", False), ("**more", False)],
)
def test_whether_all_stores_are_seen_is_known(given: str, is_all: bool, tmp_path: Path) -> None:
    facts = report_on(tmp_path, {"app.py": f"{HEAD}s = BackgroundScheduler({given})\n"}).facts
    (scheduler,) = facts.conclude(schedulers).all
    assert scheduler.all_stores_seen is is_all
    store = scheduler.store("default")
    assert (store is None) is not is_all
    assert store is None or not store.is_persistent


def test_a_store_of_another_alias_counts_for_its_jobs_only(tmp_path: Path) -> None:
    text = f"""\
    s = BackgroundScheduler(jobstores={{"default": {{"type": "memory"}}, "kept": {STORE}}})
    s.add_job(sync, "interval", minutes=1)
    s.add_job(sync, "interval", minutes=1, jobstore="kept")
    """
    assert found(tmp_path, text, "CR101", head=HEAD) == ["CR101 3"]


def test_flask_apscheduler_is_set_up_by_the_apps_config(tmp_path: Path) -> None:
    tree = {
        "config.py": """\
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
        class Config:
            SCHEDULER_JOBSTORES = {"default": SQLAlchemyJobStore(url="postgresql://db/jobs")}
            SCHEDULER_JOB_DEFAULTS = {"max_instances": 3}
            SCHEDULER_TIMEZONE = "UTC"
        """,
        "app.py": """\
        from flask_apscheduler import APScheduler
        scheduler = APScheduler()
        scheduler.add_job("sync", "jobs:sync", trigger="interval", hours=1)
        scheduler.add_job(id="other", func="jobs:other", trigger="interval", hours=1, replace_existing=True)
        @scheduler.task("interval", id="tick", hours=1)
        def tick(): ...
        """,
    }
    assert findings_in(tmp_path, tree, "CR101", "CR102", "CR104", "CR110") == [
        "CR104 app.py:2",
        "CR102 app.py:3",
    ]


DJANGO = {"site/settings.py": "INSTALLED_APPS = ['scheduler']\nTIME_ZONE = 'Europe/Berlin'\n"}


def test_the_decorator_of_django_apscheduler_does_not_replace(tmp_path: Path) -> None:
    text = """\
    from apscheduler.schedulers.background import BackgroundScheduler
    from django_apscheduler.jobstores import DjangoJobStore, register_job
    scheduler = BackgroundScheduler()
    scheduler.add_jobstore(DjangoJobStore(), "default")
    @register_job(scheduler, "interval", seconds=60)
    def one(): ...
    @register_job(scheduler, "interval", seconds=60, replace_existing=True)
    def two(): ...
    """
    assert findings_in(tmp_path, {"views.py": text}, "CR101", "CR102") == ["CR102 views.py:5"]


def test_in_django_the_local_zone_is_that_of_its_settings(tmp_path: Path) -> None:
    text = """\
    from apscheduler.schedulers.background import BackgroundScheduler
    from apscheduler.triggers.cron import CronTrigger
    from django.conf import settings
    one, two = BackgroundScheduler(), BackgroundScheduler(timezone=settings.TIME_ZONE)
    one.add_job(sync, "cron", hour=2)
    two.add_job(sync, CronTrigger(hour=2))
    two.add_job(sync, CronTrigger(hour=2, timezone="UTC"))
    """
    assert findings_in(tmp_path, {**DJANGO, "jobs.py": text}, "CR107", "CR110", "CR111") == [
        "CR107 jobs.py:5",
        "CR107 jobs.py:6",
    ]


VERSION_4 = """\
from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.cron import CronTrigger
s = AsyncScheduler(SQLAlchemyDataStore(engine))
s.add_schedule(tick, CronTrigger.from_crontab("0 2 * * 1-5"))
"""


def test_version_4_which_is_not_released_is_not_judged(tmp_path: Path) -> None:
    """Its weekdays are those of a crontab, and its stores keep leases."""
    assert found(tmp_path, VERSION_4, head="") == []


def test_what_version_3_really_does_at_the_second_start(tmp_path: Path) -> None:
    def start(**options: object) -> list[datetime]:
        scheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{tmp_path}/jobs.db")})
        if options:
            scheduler.add_job("os:getpid", "interval", hours=1, **options)
        try:
            scheduler.start(paused=True)
            return [job.next_run_time for job in scheduler.get_jobs()]
        finally:
            scheduler._jobstores["default"].engine.dispose()
            if scheduler.running:
                scheduler.shutdown()

    assert [len(start(name="x")), len(start(name="x"))] == [1, 2]
    planned = datetime.now(UTC) + timedelta(minutes=30)
    start(id="a", replace_existing=True, next_run_time=planned)
    assert planned in start()
    with pytest.raises(ConflictingIdError):
        start(id="a")
    assert len(again := start(id="a", replace_existing=True)) == 3
    assert planned not in again


@pytest.mark.parametrize(
    ("made", "job", "told"),
    [
        (f"jobstores={{'default': {STORE}}}", "coalesce=False", True),
        ("", "coalesce=False, misfire_grace_time=None", True),
        ("job_defaults={'coalesce': False}", "", True),
        ("job_defaults={'coalesce': 'false'}", "", True),
        ("", "coalesce=True", False),
        ("", "coalesce=MANY", False),
        ("", "", False),
    ],
)
def test_coalesce_false_is_information(made: str, job: str, told: bool, tmp_path: Path) -> None:
    text = f"{HEAD}s = BackgroundScheduler({made})\ns.add_job(sync, 'interval', minutes=1, id='s', {job})\n"
    found = [one.severity for one in report_on(tmp_path, {"app.py": text}).findings if one.rule == "CR103"]
    assert found == [Severity.INFO] * told


@pytest.mark.parametrize(
    ("made", "job", "rules"),
    [
        ("", "'interval', minutes=1, max_instances=3", ["CR104 2"]),
        ("job_defaults={'max_instances': 3}", "'interval', minutes=1", ["CR104 1"]),
        ("{'apscheduler.job_defaults.max_instances': '3'}", "'interval', minutes=1", ["CR104 1"]),
        ("job_defaults={'max_instances': 1}", "'interval', minutes=1, max_instances=1", []),
        ("job_defaults=DEFAULTS", "'interval', minutes=1, max_instances=MANY", []),
        ("job_defaults={'max_instances': 3}", "'interval', minutes=1, max_instances=1", []),
        ("", "max_instances=3", []),
        ("", "'interval', minutes=1", []),
    ],
)
def test_max_instances_above_one_overlaps(made: str, job: str, rules: list[str], tmp_path: Path) -> None:
    text = f"s = BackgroundScheduler({made})\ns.add_job(sync, {job})\n"
    assert found(tmp_path, text, "CR104", head=HEAD) == rules


@pytest.mark.parametrize(
    ("defaults", "told"),
    [
        ("", "'interval', minutes=1, max_instances=3"),
        ("", "'cron', hour=3, max_instances=3"),
        ("job_defaults={'max_instances': 3}", "'interval', minutes=1"),
    ],
)
def test_an_overlap_that_somebody_asks_for_is_information(tmp_path: Path, defaults: str, told: str) -> None:
    made = f"BackgroundScheduler(timezone='UTC', {defaults})"
    code = f"from apscheduler.schedulers.background import BackgroundScheduler\ns = {made}\ns.add_job(print, {told})\n"
    found = report_on(tmp_path, {"app.py": code}).findings
    assert [one.severity for one in found if one.rule == "CR104"] == [Severity.INFO]


def test_a_job_that_is_guarded_may_overlap(tmp_path: Path) -> None:
    text = f"{HEAD}s = BackgroundScheduler()\ns.add_job(sync, 'interval', minutes=1, max_instances=3)\n"
    read = report_on(tmp_path, {"app.py": text}).facts
    guard = Guarded("redis lock", Place("app.py", 4), "app.sync", across_hosts=True)
    facts = [fact for kind in (Module, Bound, Call, Function) for fact in read.of(kind)]
    assert len(list(rules()["CR104"].check(Facts(facts, 2026)))) == 1
    assert list(rules()["CR104"].check(Facts([*facts, guard], 2026))) == []


@pytest.mark.parametrize(
    ("made", "jobs", "told"),
    [
        (f"jobstores={{'default': {STORE}}}", ["'cron', hour=4"], "all threads are busy"),
        (f"jobstores={{'default': {STORE}}}", ["'interval', hours=6", "'cron', hour=4"], "all threads are busy"),
        (f"jobstores={{'default': {STORE}}}", ["'cron', hour=4, replace_existing=True"], "all threads are busy"),
        (f"jobstores={{'default': {STORE}}}", ["'interval', seconds=30", "'cron', minute='*/5'"], ""),
        (f"jobstores={{'default': {STORE}}}", ["'cron', hour=4, misfire_grace_time=600"], ""),
        (f"jobstores={{'default': {STORE}}}", ["'cron', hour=4, **more"], ""),
        (f"jobstores={{'default': {STORE}}}, job_defaults={{'misfire_grace_time': 60}}", ["'cron', hour=4"], ""),
        (f"jobstores={{'default': {STORE}}}, job_defaults=defaults", ["'cron', hour=4"], ""),
        (f"jobstores={{'default': {STORE}}}, **more", ["'cron', hour=4"], ""),
        (f"jobstores={{'default': {STORE}}}", [], ""),
        ("", ["'cron', hour=4"], "all threads are busy"),
        ("", ["'cron', minute='*/5'", "'interval', hours=6"], ""),
        ("", ["'cron', hour=4, misfire_grace_time=600"], ""),
    ],
)
def test_a_grace_of_one_second_loses_a_run_that_does_not_come_again_soon(
    made: str, jobs: list[str], told: str, tmp_path: Path
) -> None:
    added = "".join(f"    s.add_job(sync, {job}, id=x)\n" for job in jobs)
    text = f"{HEAD}s = BackgroundScheduler({made})\ndef handle(x):\n    x()\n{added}"
    report = report_on(tmp_path, {"app.py": text})
    found = [one for one in report.findings if one.rule == "CR105"]
    assert [told in one.message for one in found] == ([True] if told else [])
    assert {one.severity for one in found} <= {Severity.INFO}


@pytest.mark.parametrize(
    ("url", "severity"),
    [
        ("sqlite:///jobs.db", "info"),
        ("sqlite:////var/lib/app/jobs.db", "info"),
        ("sqlite:////mnt/share/jobs.db", "warning"),
        ("sqlite:///:memory:", ""),
        ("sqlite://", ""),
        ("postgresql://db/jobs", ""),
    ],
)
def test_an_sqlite_store_is_told(url: str, severity: str, tmp_path: Path) -> None:
    text = f"{HEAD}s = BackgroundScheduler(jobstores={{'default': SQLAlchemyJobStore(url={url!r})}})\n"
    report = report_on(tmp_path, {"app.py": text})
    assert [f.severity.word for f in report.findings if f.rule == "CR106"] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("made", "job", "rules"),
    [
        ("timezone='America/New_York'", "'cron', hour=1, minute=30", ["CR107 2"]),
        ("timezone='Europe/Berlin'", "'cron', hour=2", ["CR107 2"]),
        ("timezone='Europe/Berlin'", "'cron', hour='2,14', day_of_week='0-6'", ["CR107 2"]),
        ("timezone='UTC'", "'cron', hour=2, timezone='Europe/Berlin'", ["CR107 2"]),
        ("timezone='UTC'", "CronTrigger(hour=2, timezone='Europe/Berlin')", ["CR107 2"]),
        ("timezone='UTC'", "CronTrigger.from_crontab('30 2 * * *', 'Europe/Berlin')", ["CR107 2"]),
        ("timezone=ZoneInfo('Europe/Berlin')", "'cron', hour=2", ["CR107 2"]),
        ("timezone=pytz.timezone('Europe/Berlin')", "'cron', hour=2", ["CR107 2"]),
        ("timezone='Europe/Berlin'", "'cron', hour=2, minute=0, second=30", ["CR107 2"]),
        ("timezone='Europe/Berlin'", "'cron', hour=2, second=30", []),
        ("timezone='Europe/Berlin'", "'cron', hour=2, second='*/10'", []),
        ("timezone='Europe/Berlin'", "'cron', second=0", []),
        ("timezone='Europe/Berlin'", "'cron', hour=2, day='1-7', day_of_week='sun'", []),
        ("timezone='America/New_York'", "'cron', hour=2", []),
        ("timezone='Europe/Berlin'", "'cron', hour=4", []),
        ("timezone='Europe/Berlin'", "'cron', hour=2, day_of_week='mon'", []),
        ("timezone='Europe/Berlin'", "'cron', minute='*/10'", []),
        ("timezone='Europe/Berlin'", "'cron', hour='*'", []),
        ("timezone='Asia/Tokyo'", "'cron', hour=2", []),
        ("timezone='UTC'", "'cron', hour=2", []),
        ("timezone=pytz.utc", "'cron', hour=2", []),
        ("timezone='Europe/Berlin'", "CronTrigger(hour=2)", []),
        ("timezone=ZONE", "'cron', hour=2", []),
        ("", "'cron', hour=2", []),
        ("timezone='Europe/Berlin'", "'cron', hour=2, day=15, month=6", []),
        ("timezone='Europe/Berlin'", "'cron', hour=HOUR", []),
        ("timezone='Europe/Berlin'", "'cron', **at", []),
        ("timezone='Europe/Berlin'", "'interval', hours=2", []),
    ],
)
def test_a_time_that_the_clocks_show_twice(made: str, job: str, rules: list[str], tmp_path: Path) -> None:
    head = f"import pytz\nfrom zoneinfo import ZoneInfo\n{HEAD}"
    text = f"s = BackgroundScheduler({made})\ns.add_job(sync, {job})\n"
    assert found(tmp_path, text, "CR107", head=head) == rules


def fires(trigger: CronTrigger, first: datetime, last: datetime) -> list[datetime]:
    """As a scheduler asks, from one run to the next."""
    found, previous, now = [], None, first
    while (due := trigger.get_next_fire_time(previous, now)) is not None and due < last:
        found.append(due)
        previous, now = due, (due.astimezone(UTC) + timedelta(seconds=1)).astimezone(due.tzinfo)
    return found


@pytest.mark.parametrize(
    ("zone", "hour", "day", "runs"),
    [
        ("America/New_York", 1, (2026, 11, 1), 2),
        ("America/New_York", 2, (2026, 11, 1), 1),
        ("Europe/Berlin", 2, (2026, 10, 25), 2),
        ("America/New_York", 2, (2026, 3, 8), 1),
        ("Europe/Berlin", 2, (2026, 3, 29), 1),
    ],
)
def test_what_version_3_really_does_when_the_clocks_change(
    zone: str, hour: int, day: tuple[int, int, int], runs: int
) -> None:
    start = datetime(*day, tzinfo=ZoneInfo(zone))
    trigger = CronTrigger(hour=hour, minute=30, timezone=zone)
    assert len(fires(trigger, start, start + timedelta(days=1))) == runs


@pytest.mark.parametrize(
    ("spelled", "message"),
    [
        ("'0 9 * * 1-5'", "`1-5` is tue-sat, not mon-fri"),
        ("'0 0 * * 0'", "`0` is mon, not sun"),
        ("'0 0 * * 1,3'", "`1,3` is tue,thu, not mon,wed"),
        ("'0 0 * * 7'", "`7` is an error, not sun"),
        ("EXPRESSION", "`5` is sat, not fri"),
        ("'0 9 * * mon-fri'", None),
        ("'0 9 1 * *'", None),
        ("'0 9 * * */2'", None),
    ],
)
def test_weekdays_of_a_crontab_are_shifted(spelled: str, message: str | None, tmp_path: Path) -> None:
    text = f"{HEAD}EXPRESSION = '0 0 * * 5'\nt = CronTrigger.from_crontab({spelled}, timezone='UTC')\n"
    told = [f.message for f in report_on(tmp_path, {"app.py": text}).findings if f.rule == "CR109"]
    prefix = "from_crontab counts the days of the week from Monday, which is 0: "
    assert told == ([] if message is None else [prefix + message])


@pytest.mark.parametrize("spelled", ["given", "f'0 9 * * {day}'", "row.cron"])
def test_weekdays_that_somebody_types_are_information(spelled: str, tmp_path: Path) -> None:
    text = f"{HEAD}t = CronTrigger.from_crontab({spelled}, timezone='UTC')\n"
    told = [one for one in report_on(tmp_path, {"app.py": text}).findings if one.rule == "CR109"]
    assert [(one.severity, "a `1` as in a crontab" in one.message) for one in told] == [(Severity.INFO, True)]


def test_what_version_3_really_makes_of_weekdays() -> None:
    week = datetime(2026, 1, 5, tzinfo=UTC)
    due = fires(CronTrigger.from_crontab("0 9 * * 1-5", timezone="UTC"), week, week + timedelta(days=7))
    assert [f"{each:%a}" for each in due] == ["Tue", "Wed", "Thu", "Fri", "Sat"]
    with pytest.raises(ValueError, match="higher than the maximum"):
        CronTrigger.from_crontab("0 9 * * 7")


@pytest.mark.parametrize(
    ("made", "rules"),
    [
        ("BackgroundScheduler()", ["CR110 1"]),
        ("BackgroundScheduler(timezone='UTC')", []),
        ("BackgroundScheduler({'apscheduler.timezone': 'UTC'})", []),
        ("BackgroundScheduler(**options)", []),
        ("BackgroundScheduler(timezone=ZONE)", []),
    ],
)
def test_a_scheduler_without_a_zone(made: str, rules: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, f"s = {made}\n", "CR110", head=HEAD) == rules


def test_a_trigger_of_its_own_does_not_get_the_schedulers_zone(tmp_path: Path) -> None:
    text = """\
    s = BackgroundScheduler(timezone="UTC")
    s.add_job(sync, CronTrigger(hour=3))
    s.add_job(sync, CronTrigger(hour=3, timezone="UTC"))
    s.add_job(sync, "cron", hour=3)
    """
    assert found(tmp_path, text, "CR111", head=HEAD) == ["CR111 2"]


def test_a_trigger_without_a_zone_is_told_though_its_scheduler_is_one_of_several(tmp_path: Path) -> None:
    tree = {
        "jobs.py": HEAD
        + """\
def add(scheduler: BackgroundScheduler) -> None:
    scheduler.add_job(sync, CronTrigger(hour=3))
    scheduler.add_job(sync, CronTrigger(minute=3))
""",
        "web.py": "from jobs import BackgroundScheduler, add\ns = BackgroundScheduler(timezone='UTC')\nadd(s)\n",
        "worker.py": "from jobs import BackgroundScheduler, add\ns = BackgroundScheduler(timezone='UTC')\nadd(s)\n",
    }
    line = HEAD.count("\n") + 2
    assert findings_in(tmp_path, tree, "CR111") == [f"CR111 jobs.py:{line}"]


def test_other_libraries_have_an_add_job_too(tmp_path: Path) -> None:
    tree = {
        "bot.py": """\
        from telegram.ext import JobQueue
        queue = JobQueue()
        queue.add_job(work, "cron", hour=2, max_instances=4, coalesce=False)
        """,
        "own.py": """\
        class Scheduler:
            def add_job(self, job): ...
        Scheduler().add_job(work, "interval", max_instances=4)
        """,
        "cluster.py": """\
        from dask.distributed import Client
        Client().scheduler.add_job(work, coalesce=False)
        """,
    }
    assert findings_in(tmp_path, tree) == []


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite+pysqlite:///file::memory:?uri=true"]
)
def test_a_database_in_memory_remembers_nothing(url: str, tmp_path: Path) -> None:
    text = (
        f's = BackgroundScheduler(jobstores={{"default": SQLAlchemyJobStore(url="{url}")}})\ns.add_job(sync, "cron")\n'
    )
    assert loud(tmp_path, text, head=HEAD) == []


def test_a_conflict_that_is_suppressed_is_no_finding(tmp_path: Path) -> None:
    text = """
    import contextlib
    from apscheduler.jobstores.base import ConflictingIdError
    with contextlib.suppress(ConflictingIdError):
        s.add_job(sync, "interval", minutes=1, id="x")
    """
    assert loud(tmp_path, text) == []


def test_the_password_of_a_file_is_not_told(tmp_path: Path) -> None:
    text = 's = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url="sqlite+x://:hunter2@/x.db?key=hunter3")})\n'
    messages = [one.message for one in report_on(tmp_path, {"app.py": HEAD + text}).findings if one.rule == "CR106"]
    assert len(messages) == 1
    assert "(x.db)" in messages[0]
    assert "hunter" not in messages[0]


@pytest.mark.parametrize(("days", "told"), [("1-5", 1), ("7", 1), ("0-6", 0), ("5#2", 0), ("mon-fri", 0), ("*", 0)])
def test_days_of_the_week_that_are_shifted_and_those_that_are_not(days: str, told: int, tmp_path: Path) -> None:
    assert len(found(tmp_path, f"CronTrigger.from_crontab('0 9 * * {days}', timezone='UTC')\n", "CR109")) == told


@pytest.mark.parametrize(
    ("made", "job", "found"),
    [
        ("", '"interval", minutes=5', []),
        ("", '"cron", hour=12', ["CR110 app.py:3"]),
        ("timezone=None", '"cron", hour=12', ["CR110 app.py:3"]),
        ("timezone=None", '"interval", minutes=5', []),
        ('timezone="UTC"', '"cron", hour=12', []),
    ],
)
def test_intervals_need_no_zone_and_none_is_that_of_the_machine(
    tmp_path: Path, made: str, job: str, found: list[str]
) -> None:
    text = "from apscheduler.schedulers.blocking import BlockingScheduler\n\n"
    text += f"scheduler = BlockingScheduler({made})\nscheduler.add_job(print, {job})\n"
    assert findings_in(tmp_path, {"app.py": text}, "CR110") == found


@pytest.mark.parametrize(
    ("days", "found"), [('"1-5"', True), ("DAYS", True), ('"0,6"', True), ('"mon-fri"', False), ('"0-4"', False)]
)
def test_days_of_work_as_a_crontab_counts_them_are_others_here(tmp_path: Path, days: str, found: bool) -> None:
    text = "from apscheduler.schedulers.blocking import BlockingScheduler\n"
    text += "from apscheduler.triggers.cron import CronTrigger\n\nDAYS = '1-5'\n"
    text += "scheduler = BlockingScheduler(timezone='UTC')\n"
    text += f"scheduler.add_job(print, CronTrigger(day_of_week={days}, hour=18, timezone='UTC'))\n"
    assert findings_in(tmp_path, {"app.py": text}, "CR109") == (["CR109 app.py:6"] if found else [])


@pytest.mark.parametrize(
    ("days", "split", "found"),
    [
        ("dow", "text.split()", True),
        ("NAMES[dow]", "text.split()", False),
        ("named(dow)", "text.split()", False),
        ("dow", "fields(text)", False),
        ("'mon'", "text.split()", False),
    ],
)
def test_a_crontab_that_is_taken_apart_has_its_own_days(tmp_path: Path, days: str, split: str, found: bool) -> None:
    text = f"""\
        from apscheduler.triggers.cron import CronTrigger

        def trigger(text):
            minute, hour, day, month, dow = {split}
            return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week={days})
        """
    told = [one for one in report_on(tmp_path, {"app.py": text}).findings if one.rule == "CR109"]
    assert [(str(one.place), one.severity) for one in told] == ([("app.py:5", Severity.INFO)] if found else [])

"""The checklists: each point met, not met, not to be told or not relevant, and by which evidence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cronce_audit import checklist
from cronce_audit import evidence as scheduled
from cronce_audit.checklist import CHECKLISTS, answers
from cronce_audit.config import AuditSettings
from cronce_audit.engine import files
from cronce_audit.evidence import Answer, Seen, mentions
from cronce_audit.model import rules
from cronce_audit.outcome import weigh
from tests.audit.manifests import CRONJOB, under
from tests.audit.trees import report_on

Judge = Callable[[Seen], Answer]


def seen(root: Path, tree: dict[str, str]) -> Seen:
    report = report_on(root, tree)
    outcome = weigh(report, AuditSettings(), [], lambda _: True)
    return Seen(outcome, report.facts, mentions(root, list(files(root, []))))


def scheduler(options: str = "", job: str = 'id="a", replace_existing=True', store: str = "") -> dict[str, str]:
    stores = f'jobstores={{"default": SQLAlchemyJobStore(url="{store}")}}, ' if store else ""
    return {
        "app.py": "from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore\n"
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        f"scheduler = BackgroundScheduler({stores}{options})\n"
        "def sync(): ...\n"
        f'scheduler.add_job(sync, "interval", hours=2, {job})\n'
    }


def cronjob(spec: str = "", job: str = "", command: str = "sync") -> dict[str, str]:
    return {
        "job.yaml": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: sync}\nspec:\n"
        f'  schedule: "*/10 * * * *"\n{spec}  jobTemplate:\n    spec:\n{job}'
        "      template:\n        spec:\n          restartPolicy: Never\n"
        f"          containers: [{{name: a, image: a:1, command: [{command}]}}]\n"
    }


def in_zone(name: str) -> str:
    return under(CRONJOB, "schedule:", f"  timeZone: {name}")


def decorated(how: str) -> dict[str, str]:
    made = "from cronce import Cronce\ncron = Cronce()\n" if "cron." in how else ""
    return {"app.py": f"{made}{scheduler()['app.py'].replace('def sync', how + 'def sync')}"}


def started(guard: str = "") -> dict[str, str]:
    return {"app.py": f"{scheduler()['app.py']}{guard}scheduler.start()\n"}


def service(command: str) -> dict[str, str]:
    return {"compose.yml": f"services:\n  jobs:\n    image: shop\n    command: {command}\n"}


RELEASED = {
    "app.py": scheduler()["app.py"].replace(
        "def sync(): ...\n",
        "def sync():\n    if db.execute('SELECT pg_try_advisory_lock(1)').scalar(): work()\n",
    )
}
PG = "postgresql://db/app"
LOCK = {
    "lock.py": "import redis\nclient = redis.Redis()\n"
    'def take(me): return client.set("lock:sync", me, nx=True{more})\n'
    'def release(): client.delete("lock:sync")\n'
}
GUARDED = {"crontab": "*/5 * * * * cronce exec sync --schedule '*/5 * * * *' --timeout 4m -- /app/sync\n"}
PLAIN = {"crontab": "0 3 * * * /app/sync\n"}
NOTHING = {"app.py": "x = 1\n"}


def lock(more: str) -> dict[str, str]:
    return {path: text.replace("{more}", more) for path, text in LOCK.items()}


QUERY = "SELECT x FROM y GROUP BY x HAVING COUNT(*) > 1;\n"
ONE_SCRIPT = {**scheduler('timezone="UTC"'), "run.sh": "#!/bin/sh\npython app.py\n"}


@pytest.mark.parametrize(
    ("judge", "tree", "verdict", "evidence"),
    [
        # 1
        (checklist.jobs_replace, scheduler(store=PG), "met", "app.py:5"),
        (checklist.jobs_replace, scheduler(job="", store=PG), "not met", "app.py:5"),
        (checklist.jobs_replace, NOTHING, "not relevant", "no APScheduler"),
        # 2
        (checklist.zone_is_utc, scheduler('timezone="UTC"'), "met", "app.py:3"),
        (checklist.zone_is_utc, scheduler('timezone="Europe/Berlin"'), "not met", "Europe/Berlin"),
        (checklist.zone_is_utc, scheduler(), "not met", "no timezone"),
        (checklist.zone_is_utc, scheduler("timezone=configured"), "cannot tell", "app.py:3"),
        (checklist.zone_is_utc, NOTHING, "not relevant", "no APScheduler"),
        # 3
        (checklist.defaults_are_safe, scheduler(), "met", "by default"),
        (checklist.defaults_are_safe, scheduler('job_defaults={"coalesce": False}'), "not met", "coalesce=False"),
        (checklist.defaults_are_safe, scheduler('job_defaults={"max_instances": 3}'), "not met", "max_instances=3"),
        (checklist.defaults_are_safe, scheduler("job_defaults=somewhere.made()"), "cannot tell", "app.py:3"),
        # 4
        (checklist.grace_is_set, scheduler(), "not met", "1 of 1 jobs"),
        (checklist.grace_is_set, scheduler('job_defaults={"misfire_grace_time": 600}'), "met", "app.py:5"),
        (checklist.grace_is_set, scheduler(job="misfire_grace_time=None"), "met", "app.py:5"),
        (checklist.grace_is_set, scheduler(job="**options"), "cannot tell", "app.py:5"),
        # 5
        (checklist.store_is_a_server, scheduler(store=PG), "met", "SQLAlchemyJobStore"),
        (checklist.store_is_a_server, scheduler(store="sqlite:///jobs.db"), "not met", "SQLite"),
        (checklist.store_is_a_server, scheduler(), "not relevant", "in memory"),
        (checklist.store_is_a_server, scheduler("jobstores=made()"), "cannot tell", "app.py:3"),
        # 6
        (scheduled.one_process, {**started(), **service("python app.py")}, "met", "app.py:5"),
        (scheduled.one_process, {**started(), "Procfile": "clock: python app.py\n"}, "cannot tell", "app.py:5"),
        (scheduled.one_process, {**scheduler(), "Procfile": "clock: python app.py\n"}, "cannot tell", "app.py:5"),
        (scheduled.one_process, {**started("if on():\n    "), "Procfile": "w: gunicorn app\n"}, "cannot tell", "on()"),
        (scheduled.one_process, {**started(), "Procfile": "w: gunicorn app\n"}, "cannot tell", "one process today"),
        (scheduled.one_process, {**started(), "Procfile": "w: gunicorn -w 2 app\n"}, "not met", "app.py:6"),
        (scheduled.one_process, cronjob("  concurrencyPolicy: Forbid\n"), "met", "job.yaml:5"),
        (scheduled.one_process, service("celery -A shop beat"), "met", "compose.yml:4"),
        (scheduled.one_process, {"Procfile": "w: celery -A shop worker -B\n"}, "not met", "Procfile:1"),
        (scheduled.one_process, {"beat.sh": "exec celery -A shop beat\n"}, "cannot tell", "beat.sh:1"),
        (scheduled.one_process, ONE_SCRIPT, "cannot tell", "app.py:5"),
        (scheduled.one_process, {"c.py": "from celery import Celery\nbeat_schedule = {}\n"}, "cannot tell", "c.py:2"),
        (scheduled.one_process, RELEASED, "cannot tell", "app.py"),
        (scheduled.one_process, PLAIN, "cannot tell", ""),
        (scheduled.one_process, {"crontab": PLAIN["crontab"] * 2}, "not met", "crontab:2"),
        (scheduled.one_process, GUARDED, "met", "any number may run"),
        (scheduled.one_process, NOTHING, "not relevant", "nothing that is scheduled"),
        # 7
        (scheduled.entry_is_locked, GUARDED, "met", "crontab:1"),
        (scheduled.entry_is_locked, PLAIN, "not met", "crontab:1"),
        (scheduled.entry_is_locked, PLAIN, "not met", "1 of 1 job has no lock that all machines see"),
        (
            scheduled.entry_is_locked,
            {"crontab": "* * * * * /opt/a.sh\n0 * * * * /opt/b.sh\n"},
            "not met",
            "2 of 2 jobs have no lock that all machines see",
        ),
        (scheduled.entry_is_locked, scheduler(), "not met", "app.py:5"),
        (scheduled.entry_is_locked, decorated('@cron.single("sync")\n'), "met", "app.py:8"),
        (scheduled.entry_is_locked, decorated("@other\n"), "not met", "app.py:6"),
        (scheduled.entry_is_locked, cronjob(), "not met", "job.yaml:5"),
        (scheduled.entry_is_locked, cronjob(command="cronce, exec, sync"), "met", "job.yaml:5"),
        (scheduled.entry_is_locked, NOTHING, "not relevant", "nothing that is scheduled"),
        (scheduled.entry_is_locked, RELEASED, "not met", "does not make a slot run once"),
        (scheduled.entry_is_locked, {"Procfile": "beat: celery -A shop beat\n"}, "cannot tell", "Procfile:1"),
        (scheduled.entry_is_locked, {"Procfile": "beat: celery -A shop beat -S cronce\n"}, "met", "Procfile:1"),
        (scheduled.old_stops_first, RELEASED, "cannot tell", ""),
        # 8
        (checklist.effects_have_keys, {"pay.py": 'headers = {"Idempotency-Key": key}\n'}, "cannot tell", "pay.py:1"),
        (checklist.effects_have_keys, {"pay.py": 'run.on("invoice", 7).once("charge", pay)\n'}, "met", "pay.py:1"),
        (checklist.effects_have_keys, NOTHING, "cannot tell", ""),
        # 9
        (checklist.zones_are_utc, {"Dockerfile": "FROM python:3.13\nENV TZ=UTC\n"}, "met", "Dockerfile:2"),
        (checklist.zones_are_utc, {"Dockerfile": "FROM python:3.13\nENV TZ=Asia/Tokyo\n"}, "not met", "Asia/Tokyo"),
        (checklist.zones_are_utc, {"a.timer": "[Timer]\nOnCalendar=03:00 Asia/Tokyo\n"}, "not met", "a.timer:2"),
        (checklist.zones_are_utc, {"a.timer": "[Timer]\nOnCalendar=03:00 UTC\n"}, "cannot tell", ""),
        (checklist.zones_are_utc, {"job.yaml": in_zone("Asia/Tokyo")}, "not met", "job.yaml"),
        (checklist.zones_are_utc, {"job.yaml": in_zone("Etc/UTC")}, "cannot tell", ""),
        (checklist.zones_are_utc, NOTHING, "cannot tell", ""),
        # 10
        (checklist.ci_audits, {".github/workflows/a.yml": "- run: cronce audit --strict\n"}, "met", "a.yml:1"),
        (checklist.ci_audits, {".pre-commit-config.yaml": "- id: cronce-audit\n"}, "met", ".pre-commit-config.yaml:1"),
        (checklist.ci_audits, {"Makefile": "lint:\n\tcronce audit\n"}, "met", "Makefile:2"),
        (checklist.ci_audits, {".gitlab-ci.yml": "# - cronce audit\n"}, "not met", "no pipeline"),
        (checklist.ci_audits, {"docs/x.md": "run cronce audit\n"}, "not met", "no pipeline"),
        # 11
        (
            checklist.silence_and_doubles_alert,
            {"alerts.yml": "- alert: HeartbeatMissing\n- alert: SchedulerDoubled\n"},
            "met",
            "alerts.yml:1",
        ),
        (
            checklist.silence_and_doubles_alert,
            {"a.sh": "curl https://hc-ping.com/secret\n"},
            "cannot tell",
            "`hc-ping.com`",
        ),
        (checklist.silence_and_doubles_alert, NOTHING, "cannot tell", ""),
        # 12
        (checklist.policy_is_stated, cronjob("  concurrencyPolicy: Forbid\n"), "met", "Forbid"),
        (checklist.policy_is_stated, cronjob("  concurrencyPolicy: Replace\n"), "met", "Replace"),
        (checklist.policy_is_stated, cronjob("  concurrencyPolicy: Allow\n"), "not met", "Allow"),
        (checklist.policy_is_stated, cronjob(), "not met", "job.yaml:5"),
        (checklist.policy_is_stated, NOTHING, "not relevant", "no CronJob"),
        # 13
        (scheduled.old_stops_first, {**PLAIN, "run.md": "Call `cronce drain` first.\n"}, "met", "run.md:1"),
        (
            scheduled.old_stops_first,
            {**PLAIN, "run.md": "`cronce pause --scheduler web-1`\n"},
            "met",
            "run.md:1",
        ),
        (
            scheduled.old_stops_first,
            {**PLAIN, "run.md": "Stop the old scheduler before you start.\n"},
            "met",
            "run.md:1",
        ),
        (scheduled.old_stops_first, GUARDED, "met", "side by side"),
        (scheduled.old_stops_first, PLAIN, "cannot tell", ""),
        # 14, 15
        (checklist.duplicates_are_looked_for, {"after.sh": "cronce dupes --since 30m\n"}, "met", "after.sh:1"),
        (checklist.duplicates_are_looked_for, {"after.sh": "cronce audit dupes --since 30m\n"}, "met", "after.sh:1"),
        (checklist.duplicates_are_looked_for, {"a.sql": QUERY}, "cannot tell", "a.sql:1"),
        (checklist.duplicates_are_looked_for, {"alembic/versions/a.py": f'op("{QUERY}")'}, "cannot tell", ""),
        (checklist.duplicates_are_looked_for, {".gitlab-ci.yml": f"after: {QUERY}"}, "met", ".gitlab-ci.yml:1"),
        (checklist.duplicates_are_looked_for, NOTHING, "cannot tell", ""),
        (checklist.unended_runs_are_looked_for, {"run.md": "`cronce logs` shows it\n"}, "met", "run.md:1"),
        (checklist.unended_runs_are_looked_for, {"run.md": "`cronce audit logs` shows it\n"}, "met", "run.md:1"),
        (checklist.unended_runs_are_looked_for, NOTHING, "cannot tell", ""),
        # cron jobs
        (checklist.runs_do_not_overlap, cronjob("  concurrencyPolicy: Forbid\n"), "met", "Forbid"),
        (checklist.runs_do_not_overlap, cronjob(), "not met", "job.yaml:5"),
        (checklist.runs_do_not_overlap, GUARDED, "met", "under a lock"),
        (checklist.runs_do_not_overlap, {"crontab": "* * * * * rsync -a /a b:/a\n"}, "cannot tell", ""),
        (checklist.runs_do_not_overlap, PLAIN, "cannot tell", ""),
        (checklist.runs_do_not_overlap, NOTHING, "not relevant", ""),
        (checklist.failures_are_retried, cronjob(), "met", "six times"),
        (checklist.failures_are_retried, cronjob(job="      backoffLimit: 0\n"), "not met", "backoffLimit: 0"),
        (checklist.failures_are_retried, {**PLAIN, "t.py": "@task(max_retries=3)\n"}, "cannot tell", "t.py:1"),
        (checklist.failures_are_retried, PLAIN, "cannot tell", ""),
        (checklist.failures_are_retried, NOTHING, "not relevant", ""),
        (checklist.runs_are_bounded, cronjob(job="      activeDeadlineSeconds: 60\n"), "met", "Seconds: 60"),
        (checklist.runs_are_bounded, cronjob(), "not met", "job.yaml:5"),
        (checklist.runs_are_bounded, GUARDED, "met", "crontab:1"),
        (checklist.runs_are_bounded, PLAIN, "cannot tell", ""),
        (checklist.runs_are_bounded, NOTHING, "not relevant", ""),
        (checklist.locks_run_out, lock(", ex=60"), "met", "lock.py:3"),
        (checklist.locks_run_out, lock(""), "not met", "lock.py:3"),
        (checklist.locks_run_out, NOTHING, "not relevant", "no lock"),
        # locks
        (checklist.locks_last, lock(", ex=60"), "not met", "lock.py:4"),
        (checklist.locks_last, GUARDED, "met", "crontab:1"),
        (
            checklist.locks_last,
            {"x.py": 'def sync(): db.execute("SELECT pg_advisory_lock(1)")\n'},
            "cannot tell",
            "x.py:1",
        ),
        (checklist.locks_last, NOTHING, "not relevant", "no lock"),
        (checklist.store_is_safe, {**lock(", ex=60"), "a.md": "see `cronce doctor`\n"}, "cannot tell", "a.md:1"),
        (checklist.store_is_safe, NOTHING, "not relevant", "no lock"),
        (checklist.connections_are_given_back, lock(", ex=60"), "cannot tell", "lock.py:3"),
        (checklist.connections_are_given_back, cronjob(command="cronce, exec, sync"), "met", "job.yaml"),
        (checklist.durations_alert, {"a.yml": "- alert: LockHeldTooLong\n"}, "met", "a.yml:1"),
        (checklist.durations_alert, NOTHING, "cannot tell", ""),
        # causes
        (checklist.restarts_are_bounded, cronjob("  startingDeadlineSeconds: 300\n"), "met", "300"),
        (checklist.restarts_are_bounded, cronjob(), "not met", "job.yaml:5"),
        (checklist.restarts_are_bounded, NOTHING, "not relevant", "no CronJob"),
        (checklist.skew_does_no_harm, GUARDED, "met", "from the schedule"),
        (checklist.skew_does_no_harm, PLAIN, "cannot tell", ""),
    ],
)
def test_each_point_is_answered_by_what_is_there(
    judge: Judge, tree: dict[str, str], verdict: str, evidence: str, tmp_path: Path
) -> None:
    answer = judge(seen(tmp_path, tree))
    told = " ".join(f"{one.place or ''} {one.text}" for one in answer.evidence)
    assert (answer.verdict, evidence in told) == (verdict, True), told
    assert bool(answer.shows) is (verdict == "cannot tell")
    assert bool(answer.evidence) or verdict == "cannot tell"


def test_what_somebody_gave_a_reason_for_is_met_and_what_is_only_known_is_not(tmp_path: Path) -> None:
    tree = scheduler(job="", store=PG)
    tree["app.py"] = tree["app.py"].replace("scheduler.add_job", "# cronce: ignore[CR101] wiped\nscheduler.add_job")
    assert checklist.jobs_replace(seen(tmp_path, tree)).verdict == "met"
    report = report_on(tmp_path, scheduler(job="", store=PG))
    known = list(weigh(report, AuditSettings(), [], lambda _: True).entries())
    in_baseline = weigh(report, AuditSettings(), known, lambda _: True)
    assert not in_baseline.findings
    assert checklist.jobs_replace(Seen(in_baseline, report.facts)).verdict == "not met"


def test_the_four_lists_are_answered_in_their_order(tmp_path: Path) -> None:
    assert {name: len(points) for name, points in CHECKLISTS.items()} == {
        "schedulers": 15,
        "cron jobs": 5,
        "locks": 4,
        "causes": 6,
    }
    answered = answers(seen(tmp_path, PLAIN))
    assert [(one.checklist, one.number) for one in answered] == [
        (name, number) for name, points in CHECKLISTS.items() for number in range(1, len(points) + 1)
    ]
    assert answered[6].answer is answered[15].answer  # the same question


def test_every_rule_that_an_answer_is_drawn_from_exists() -> None:
    named = {
        *scheduled.SEVERAL_PROCESSES,
        *scheduled.SURGE,
        *checklist.COPIES,
        *checklist.CLOCKS,
        *checklist.ETERNAL,
        *checklist.SHORT,
    }
    folder = Path(checklist.__file__).parent
    text = " ".join(path.read_text() for path in folder.glob("*.py"))
    known = {rule.name for rule in rules().values()}
    calls = {word for part in text.split(".found(")[1:] for word in part.split(")")[0].replace('"', " ").split()}
    named |= {word.strip(",") for word in calls if "-" in word}
    assert len(named) == 29
    assert named - known == set()


def test_replicas_of_a_scheduler_are_not_one(tmp_path: Path) -> None:
    code = scheduler('timezone="UTC"')["app.py"] + 'if __name__ == "__main__":\n    scheduler.start()\n'
    compose = "services:\n  jobs:\n    image: jobs\n    command: python app.py\n    deploy: {replicas: 3}\n"
    assert scheduled.one_process(seen(tmp_path, {"app.py": code, "compose.yaml": compose})).verdict == "not met"

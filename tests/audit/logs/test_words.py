"""Which lines are starts and ends: the programs that are known, by their real lines, and anybody's words."""

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from celery.app.trace import LOG_FAILURE, LOG_RECEIVED, LOG_SUCCESS

from cronce.clock import SystemClock
from cronce.events import Event, What
from cronce.runtime.log import log
from cronce_audit.logs.judge import Form
from cronce_audit.logs.words import Own
from tests.audit.logs.reading import found, marks, report, says
from tests.house.wait import wait_until

UUID = "5b3b4a5e-6f0a-4b6f-9a53-0d8f3c3b1a00"
AT = "2026-11-01 14:00:00,123 INFO "

Short = tuple[bool, str, str] | None


def read(line: str) -> Short:
    """Whether it starts, the job, and the run; None: it is neither a start nor an end."""
    found = marks(line + "\n")
    return (found[0].said.starts, found[0].said.job, found[0].said.run) if found else None


@contextmanager
def captured(name: str) -> Iterator[io.StringIO]:
    """What a logger writes, as most programs format it."""
    text, logger = io.StringIO(), logging.getLogger(name)
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# --- anybody's words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("job_id=ORDER_SYNC START run=7", (True, "ORDER_SYNC", "7")),
        ("job_id=ORDER_SYNC END run=7", (False, "ORDER_SYNC", "7")),
        ("ORDER_SYNC START", (True, "ORDER_SYNC", "")),
        ("ORDER_SYNC END", (False, "ORDER_SYNC", "")),
        ("Job order-sync started", (True, "order-sync", "")),
        ("Job 'order-sync' finished in 3.2s", (False, "order-sync", "")),
        ("Starting job sync.", (True, "sync", "")),
        ("task: nightly completed", (False, "nightly", "")),
        ("event=start job=sync", (True, "sync", "")),
        ("event=sync.started job=sync", (True, "sync", "")),
        ("shop.jobs: started job=sync tenant=5", (True, "sync", "")),
        ("[main] web-1 pid=3 job=sync START run=5", (True, "sync", "5")),
        ("job=sync has finished successfully after 3s", (False, "sync", "")),
        ("event=job.finished job=sync run_id=abc", (False, "sync", "abc")),
        ("job=sync status=failed", (False, "sync", "")),
        ("job=sync finished, started at 14:00", (False, "sync", "")),
        ("job=sync done, beginning was 14:00", (False, "sync", "")),
        ("job=sync START batch=end-of-day", (True, "sync", "")),
    ],
)
def test_a_job_and_a_word_make_a_start_or_an_end(line: str, expected: Short) -> None:
    assert read(AT + line) == expected


@pytest.mark.parametrize(
    ("line", "failed"), [("completed", False), ("completed: failed", True), ("FAILED", True), ("status=aborted", True)]
)
def test_an_end_says_whether_it_failed(line: str, failed: bool) -> None:
    (mark,) = marks(f"{AT}job=sync {line}\n")
    assert (mark.said.starts, mark.said.failed) == (False, failed)


@pytest.mark.parametrize(
    "line",
    [
        "Server started",
        "job started",
        "START",
        "job=sync not started: web-1 has it",
        "job=sync already started elsewhere",
        "job=sync skipped, the last run has not ended",
        "job=sync will start at 15:00",
        "job=sync upload started",
        "job=sync batch 3 started",
        "Starting upload of orders job=sync",
        "job=sync STEP START",
        "event=upload_started job=sync",
        "event=order.completed job=sync",
        'level=info msg="order 12 completed" job=sync',
        "job=sync processed 12 rows",
        "job=sync restarted the pool",
        "job=sync start=2026-11-01T14:00:00Z rows=3",
        "sending the backend's endpoint list of job=sync",
        "job=sync uploading /data/start/end.csv",
        'Execution of job "sync (trigger: cron)" skipped: maximum number of running instances reached (1)',
        'Run time of job "sync (trigger: cron, next run at: x)" was missed by 0:00:07',
    ],
)
def test_anything_else_is_neither(line: str) -> None:
    assert read(AT + line) is None


@pytest.mark.parametrize(
    "names",
    [
        {"time": "2026-11-01T14:00:00Z", "event": "start", "job": "sync", "run": "7", "host": "web-1", "pid": 12},
        {"timestamp": "2026-11-01T16:00:00+02:00", "message": "job started", "job_id": "sync", "run_id": "7",
         "hostname": "web-1", "pid": "12"},
        {"ts": 1793541600, "msg": "START", "job_name": "sync", "id": "7", "host": "web-1", "pid": 12},
        {"@timestamp": 1793541600000, "message": "started", "job": {"name": "sync"}, "run": {"id": "7"},
         "host": {"name": "web-1"}, "process": {"pid": 12}},
        {"__REALTIME_TIMESTAMP": "1793541600000000", "MESSAGE": "job=sync START run=7", "_HOSTNAME": "web-1",
         "_PID": "12"},
    ],
)  # fmt: skip
def test_json_lines_by_the_common_names(names: dict[str, object]) -> None:
    (mark,) = marks(json.dumps(names) + "\n")
    assert (mark.said.starts, mark.said.job, mark.said.run) == (True, "sync", "7")
    assert (str(mark.place), mark.at) == ("web-1 pid 12", datetime(2026, 11, 1, 14, tzinfo=UTC))


@pytest.mark.parametrize(
    ("line", "host", "pid"),
    [
        ("Nov  1 14:00:00 web-1 shop[12]: job=sync START", "web-1", "12"),
        ("2026-11-01T14:00:00.000Z web-1 shop[12]: job=sync START", "web-1", "12"),
        ("<13>1 2026-11-01T14:00:00.000Z web-1 shop 12 - - job=sync START", "web-1", "12"),
        ('<13>1 2026-11-01T14:00:00Z web-1 shop 12 ID [a@1 b="c"] job=sync START', "web-1", "12"),
        ("web-1  | 2026-11-01 14:00:00 INFO job=sync START", "web-1", ""),
        ("[pod/shop-7d4b9/web] 2026-11-01T14:00:00.5Z job=sync START", "shop-7d4b9", ""),
        ("2026-11-01T14:00:00.123456789Z stdout F job=sync START", "app.log", ""),
        ("2026-11-01T14:00:00.123456789Z stdout F {\"event\": \"start\", \"job\": \"sync\"}", "app.log", ""),
        ('{"log":"job=sync START\\n","stream":"stdout","time":"2026-11-01T14:00:00.5Z"}', "app.log", ""),
        ("[2026-11-01 14:00:00,123: INFO/MainProcess] job=sync START", "app.log", ""),
        ("2026-11-01T14:00:00 INFO shop: job=sync START", "app.log", ""),
        ('time="2026-11-01T14:00:00Z" level=info msg="job started" job=sync', "app.log", ""),
    ],
)  # fmt: skip
def test_what_stands_around_a_line_says_when_and_who(line: str, host: str, pid: str) -> None:
    (mark,) = marks(line + "\n")
    assert (mark.said.job, mark.said.starts, mark.place.host, mark.place.pid) == ("sync", True, host, pid)
    assert mark.at.replace(microsecond=0) == datetime(2026, 11, 1, 14, tzinfo=UTC)


def test_words_of_ones_own() -> None:
    own = Own(re.compile(r"run (?P<run>\S+) of (?P<job>\S+) begins"), re.compile(r"run (?P<run>\S+) .*is over"))
    text = "".join(f"{AT}run 9 of sync {word}\n" for word in ("begins", "is over")) + f"{AT}job=other START\n"
    said = [mark.said for mark in marks(text, own=own.recognise)]
    assert [(one.starts, one.job, one.run) for one in said] == [(True, "sync", "9"), (False, "the job", "9")]


# --- cron -----------------------------------------------------------------------------------------------------------


def cron(minute: int, host: str, pid: int, text: str = "CMD (/srv/sync.sh)", program: str = "CRON") -> str:
    return f"Nov  1 14:{minute:02d}:01 {host} {program}[{pid}]: (root) {text}\n"


def test_a_line_that_stands_in_the_crontab_twice_is_certain_and_another_host_is_possible() -> None:
    assert found(cron(0, "web-1", 7) + cron(0, "web-1", 8) + cron(5, "web-1", 9)) == [
        ("twice-started", "certain", "root: /srv/sync.sh", "app.log:2")
    ]
    assert found(cron(0, "web-1", 7) + cron(0, "web-2", 7)) == [
        ("twice-started", "possible", "root: /srv/sync.sh", "app.log:2")
    ]
    between = cron(0, "web-1", 7) + cron(0, "web-2", 7) + cron(0, "web-1", 8)
    assert [one[1] for one in found(between)] == ["certain", "possible"]


@pytest.mark.parametrize(
    ("command", "times"),
    [
        ("cd / && run-parts --report /etc/cron.hourly", 0),
        ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", 0),
        ("/usr/lib64/sa/sa1 1 1", 0),
        ("if [ -x /usr/share/mdadm/checkarray ]; then /usr/share/mdadm/checkarray --cron --all; fi", 0),
        ("if [ -x /usr/lib/zfs-linux/trim ]; then /usr/lib/zfs-linux/trim; fi", 0),
        ("/usr/sbin/raid-check", 0),
        ("/etc/cron.daily/popularity-contest --crond", 0),
        ("/sbin/e2scrub_all -A -r", 0),
        ("/opt/visa1-report", 1),
        ("/opt/anacronism", 1),
    ],
)
def test_what_a_distribution_runs_on_each_host_is_no_finding_by_whole_words(command: str, times: int) -> None:
    assert len(found(cron(0, "web-1", 7, f"CMD ({command})") + cron(0, "web-2", 7, f"CMD ({command})"))) == times


def test_a_job_of_a_whole_fleet_is_one_finding_for_each_set_of_hosts_with_a_count() -> None:
    hosts = ["web-1", "web-2", "web-3"]
    in_turn = [(minute, hosts[minute % 3 :] + hosts[: minute % 3]) for minute in range(40)]
    lines = "".join(cron(minute, host, 7) for minute, order in in_turn for host in order)
    once = cron(50, "db-1", 7) + cron(50, "web-1", 8) + cron(51, "db-1", 9)
    assert [one[1:] for one in found(lines + once)] == [
        ("possible", "root: /srv/sync.sh", "app.log:2"), ("possible", "root: /srv/sync.sh", "app.log:122")
    ]  # fmt: skip
    each, alone = says(lines + once)
    assert each.startswith(
        "started again for the slot 2026-11-01T14:00:00Z, 0s after that of web-1 pid 7 (app.log:1); "
    )
    assert each.endswith("; in 40 slots on web-1, web-2, web-3: is it meant to run on each host?")
    assert alone.endswith("; in 1 slot on db-1, web-1: is it meant to run on each host?")


def test_two_users_with_the_same_command_have_two_jobs() -> None:
    line = "Nov  1 14:00:01 h CRON[{}]: ({}) CMD ($HOME/sync.sh)\n"
    assert found(line.format(7, "alice") + line.format(8, "bob")) == []
    assert found(line.format(7, "bob") + line.format(8, "alice") + line.format(9, "bob")) == [
        ("twice-started", "certain", "bob: $HOME/sync.sh", "app.log:3")
    ]
    line = "Nov  1 14:00:01 box crond[1]: USER {} pid {:3} cmd ./sync.sh\n"
    assert found(line.format("alice", 7) + line.format("bob", 8)) == []
    assert found(line.format("bob", 7) + line.format("bob", 8)) == [
        ("twice-started", "certain", "bob: ./sync.sh", "app.log:2")
    ]


def test_one_line_of_cron_in_two_logs_is_one_start() -> None:
    text = cron(0, "web-1", 7)
    assert [one[:2] for one in found({"syslog": text, "cron.log": text})] == []


@pytest.mark.parametrize("end", ["", "CMDEND (/srv/sync.sh)"])
def test_one_start_of_cron_that_is_told_with_two_precisions_is_one(end: str) -> None:
    hosts = ["web-1", "web-2", "web-3"]
    syslog = "".join(cron(0, host, 7) + (cron(0, host, 6, end) if end else "") for host in hosts)
    journal = syslog.replace("Nov  1 14:00:01", "2026-11-01T14:00:01.123456+00:00")
    assert [one[:2] for one in found({"syslog": syslog, "journal": journal})] == [("twice-started", "possible")]
    assert [job.starts for job in report({"syslog": syslog, "journal": journal}).jobs] == [3]


NIGHT = "".join(f"Oct 25 0{hour}:17:01 h CRON[{pid}]: (root) CMD (hourly)\n" for pid, hour in enumerate((1, 2, 2, 3)))
"""An hourly job in the night in which the clocks of Berlin show an hour twice."""


@pytest.mark.parametrize("zone", [None, ZoneInfo("Europe/Berlin")])
def test_an_hour_that_clocks_show_twice_is_never_certain(zone: tzinfo | None) -> None:
    assert found(NIGHT, zone=zone) == [("twice-started", "possible", "root: hourly", "app.log:3")]
    assert says(NIGHT, zone=zone)[0].endswith(
        "; it may be the hour that occurs twice when clocks go back: give the time zone with --tz, or write offsets"
        " in the timestamps"
    )
    for certain in (NIGHT.replace("Oct 25", "Oct 24"), NIGHT.replace(" 02:", " 22:")):
        assert [one[1] for one in found(certain, zone=zone)] == ["certain"]


def test_where_the_clocks_are_utcs_or_stamps_have_their_offset_no_hour_comes_twice() -> None:
    assert [one[1] for one in found(NIGHT, zone=UTC)] == ["certain"]
    iso = re.sub(r"Oct 25 (\S+)", r"2026-10-25T\1+00:00", NIGHT)
    assert [one[1] for one in found(iso, zone=None)] == ["certain"]


def test_stamps_that_go_back_by_an_hour_are_the_second_one_by_clocks_that_nobody_named() -> None:
    lines = cron(17, "h", 7) + cron(57, "h", 8, "CMD (other)") + cron(17, "h", 9)
    assert [one[1] for one in found(lines, zone=None)] == ["possible"]
    assert [one[1] for one in found(lines, zone=UTC)] == ["certain"]


def test_debians_cron_writes_no_ends_and_is_not_judged_by_them() -> None:
    assert found("".join(cron(minute, "web-1", minute) for minute in range(60)), expected=5) == []


def test_cronies_ends_come_from_another_process() -> None:
    crond = partial(cron, program="CROND")
    runs = crond(0, "h", 21) + crond(1, "h", 20, "CMDEND (/srv/sync.sh)") + crond(5, "h", 31)
    assert found(runs + crond(6, "h", 30, "CMDEND (/srv/sync.sh)")) == []
    again = runs + crond(10, "h", 41) + crond(11, "h", 30, "CMDEND (/srv/sync.sh)")
    assert found(again + crond(12, "h", 40, "CMDEND (/srv/sync.sh)")) == [
        ("overlapping", "certain", "root: /srv/sync.sh", "app.log:4")
    ]
    assert [one[1] for one in found(again)] == ["possible"]
    elsewhere = runs + crond(10, "g", 41) + crond(11, "g", 40, "CMDEND (/srv/sync.sh)")
    assert found(elsewhere + crond(12, "h", 30, "CMDEND (/srv/sync.sh)")) == []
    assert found(runs + crond(40, "h", 9, "CMD (other)"), expected=20) == [
        ("never-ended", "certain", "root: /srv/sync.sh", "app.log:3")
    ]


def test_busybox_and_debian_with_all_its_words() -> None:
    assert read("Nov  1 14:00:00 box crond[1]: USER root pid 12 cmd /srv/sync.sh") == (True, "root: /srv/sync.sh", "12")
    assert read("Nov  1 14:00:00 h CRON[12]: (root) CMD ([13] /srv/sync.sh)") == (True, "root: /srv/sync.sh", "")
    assert read("Nov  1 14:00:00 h CRON[12]: (root) END ([13] /srv/sync.sh)") == (False, "root: /srv/sync.sh", "")


def test_passwords_in_commands_are_masked() -> None:
    (mark,) = marks(cron(0, "h", 1, "CMD (sync postgresql://me:secret@db/x)"))
    assert mark.said.job == "root: sync postgresql://me:***@db/x"


# --- supercronic ----------------------------------------------------------------------------------------------------


def test_supercronics_lines_and_not_what_its_jobs_print() -> None:
    about = 'iteration=4 job.command="./sync.sh" job.position=0 job.schedule="*/5 * * * *"'
    line = f'time="2026-11-01T14:00:00Z" level=info msg={{}} {about}'
    assert read(line.format("starting")) == (True, "./sync.sh", "0/4")
    assert read(line.format('"job succeeded"')) == (False, "./sync.sh", "0/4")
    assert read(line.format('"error running command: exit status 1"')) == (False, "./sync.sh", "0/4")
    assert read(line.format("starting") + " channel=stdout") is None
    assert read(line.format('"not starting: job is still running since 14:00 (1m elapsed)"')) is None
    fields = {"time": "2026-11-01T14:00:00Z", "msg": "starting", "iteration": 4, "job.command": "./sync.sh",
              "job.position": 0}  # fmt: skip
    assert read(json.dumps(fields)) == (True, "./sync.sh", "0/4")


# --- APScheduler, itself --------------------------------------------------------------------------------------------


def logged_by_apscheduler(jobs: int) -> str:
    """What APScheduler writes when one function is registered that often, for one instant."""
    done: list[None] = []
    with captured("apscheduler") as text:
        scheduler = BackgroundScheduler(timezone="UTC")
        when = SystemClock().wall().replace(microsecond=0) + timedelta(milliseconds=1)
        for _ in range(jobs):
            scheduler.add_job(done.append, "date", [None], run_date=when, name="order sync", misfire_grace_time=60)
        scheduler.start()
        wait_until(lambda: len(done) == jobs and not scheduler.get_jobs())  # its thread is done with them, too
        scheduler.shutdown(wait=True)
        return text.getvalue()


def test_a_job_that_is_registered_twice_is_found_in_the_schedulers_log() -> None:
    assert found(logged_by_apscheduler(1)) == []
    ((kind, sure, job, _),) = found(logged_by_apscheduler(2))
    assert (kind, sure, job) == ("twice-started", "possible", "order sync")


def test_two_servers_with_one_job_store_are_certain() -> None:
    line = (
        '{} INFO apscheduler.executors.default {} "order sync (trigger: interval[0:15:00], next run at: 2026-11-01'
        ' 14:15:00 UTC)" {}\n'
    )
    start, end = "2026-11-01 14:00:00,0{}", "2026-11-01 14:00:03,0{}"
    logs = {
        f"{host}/app.log": line.format(start.format(ms), "Running job", "(scheduled at 2026-11-01 14:00:00+00:00)")
        + line.format(end.format(ms), "Job", "executed successfully")
        for host, ms in (("old", 12), ("new", 57))
    }
    assert found(logs) == [("twice-started", "certain", "order sync", "new/app.log:1")]


def test_two_triggers_of_one_function_are_not_certain() -> None:
    """Two jobs without names have that of their function, and may be due at the same time."""
    line = '2026-11-01 14:00:00,0{} INFO apscheduler.executors.default Running job "tick (trigger: {}, next run at: x)"'
    slot = "(scheduled at 2026-11-01 14:00:00+00:00)"
    logs = {
        f"{host}/app.log": f"{line.format(ms, trigger)} {slot}\n"
        for host, ms, trigger in (("old", 12, "interval[0:00:02]"), ("new", 57, "cron[second='*/3']"))
    }
    assert found(logs) == [("twice-started", "possible", "tick", "new/app.log:1")]


# --- Celery, by its own formats -------------------------------------------------------------------------------------


def celery(second: int, text: str, host: str = "w1") -> str:
    return f"{host}  | [2026-11-01 14:00:{second:02d},000: INFO/MainProcess] {text}\n"


def task(word: str, number: int = 0) -> str:
    names = {"name": "shop.sync", "id": f"{UUID[:-2]}{number:02d}", "runtime": 1, "return_value": None}
    return word % {**names, "description": "raised unexpected", "exc": "ValueError()"}


SENT = "Scheduler: Sending due task every-hour (shop.sync)"


def test_two_beats_are_found_and_the_tasks_that_they_send_are_watched() -> None:
    beats = celery(0, SENT, "beat-1") + celery(1, SENT, "beat-2")
    assert found(beats) == [("twice-started", "possible", "every-hour → shop.sync", "app.log:2")]
    tasks = celery(2, task(LOG_RECEIVED)) + celery(9, task(LOG_RECEIVED, 1)) + celery(12, task(LOG_SUCCESS))
    tasks += celery(13, task(LOG_SUCCESS, 1))
    assert found(celery(0, SENT) + tasks) == [("overlapping", "possible", "shop.sync", "app.log:3")]
    assert found(tasks) == []


def test_a_message_that_is_delivered_twice_is_found_and_a_retry_is_not() -> None:
    first = celery(0, task(LOG_RECEIVED))
    assert found(first + celery(30, task(LOG_RECEIVED), "w2")) == [
        ("twice-started", "possible", "shop.sync", "app.log:2")
    ]
    assert [one[:2] for one in found(first + celery(30, task(LOG_RECEIVED)))] == [("twice-started", "possible")]
    assert found(first + first) == []
    assert found(first + celery(1, task(LOG_FAILURE)) + celery(30, task(LOG_RECEIVED))) == []
    assert read(celery(1, task(LOG_SUCCESS))) == (False, "shop.sync", UUID)


# --- our own --------------------------------------------------------------------------------------------------------


def ours(*events: tuple[What, str]) -> str:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with captured("cronce") as text:
        for what, detail in events:
            log(Event(what, "run/order-sync/2026-11-01T14:00:00Z", "web-1:7", at, detail=detail))
        return text.getvalue()


def test_our_own_log_is_read_and_a_takeover_is_no_second_start() -> None:
    granted, closed = ours((What.GRANTED, "")), ours((What.CLOSED, "succeeded"))
    (start,), (end,) = marks(granted), marks(closed)
    assert start.said._replace(starts=False) == end.said
    assert (start.said.job, start.said.form, start.slot) == (
        "order-sync", Form.CRONCE, datetime(2026, 11, 1, 14, tzinfo=UTC),
    )  # fmt: skip
    taken = ours((What.TAKEN_OVER, "")) + closed
    assert found({"web-1.log": granted, "web-2.log": taken}) == []
    assert [one[:3] for one in found({"web-1.log": granted, "web-2.log": granted + closed})] == [
        ("twice-started", "certain", "order-sync")
    ]
    assert marks(ours((What.REFUSED, "held by another"))) == []

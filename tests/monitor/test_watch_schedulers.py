"""What is wrong with schedulers: each thing is raised by what stands in the store, and is over when that is."""

from datetime import timedelta

import pytest

from cronce.model import ABSENT, Mark, Write, drained_holder
from cronce.monitor.alerts import AlertKind
from cronce.monitor.settings import Settings
from cronce.protocol.notices import Holder, Machine, encode_notice
from cronce.protocol.record import decode_job
from cronce.runtime.declare import declare
from cronce.runtime.process_notes import NOTES_TTL
from cronce.runtime.queries import HolderSeen
from cronce.runtime.stored_jobs import add, remove
from cronce.telling.words import fate
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import START

WEB = "web-1:1:a"


@pytest.fixture
def town() -> Town:
    return Town()


# --- silent ---


def test_a_job_that_no_live_scheduler_carries_is_silent_until_one_does(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.beat("web-2:1:a", every("1h", "mail"))
    assert town.kinds() == []
    town.beat(WEB, gone=True)
    town.pass_time(20 * SECOND)
    town.beat("web-2:1:a")
    town.pass_time(20 * SECOND)
    town.beat("web-2:1:a")
    town.pass_time(20 * SECOND - timedelta(microseconds=1))
    assert town.kinds() == []  # it said goodbye, and has a minute to come back
    town.pass_time(timedelta(microseconds=1))
    finding = town.the(AlertKind.SILENT)
    assert (finding.subject, finding.severity) == ("billing", "critical")
    assert finding.text == "billing is scheduled, and no live scheduler has this job: web-2:1:a does not."
    town.beat("web-3:1:a", every("1h"))
    assert town.kinds() == []


REMOVED = "Was it removed or renamed? Then `cronce pause billing` ends this alert; if not, start a process that has it."


@pytest.mark.parametrize("name", ["web-1:2:a", "web-2:1:a"])
def test_a_job_that_the_next_version_does_not_carry_is_told_of_after_five_minutes(town: Town, name: str) -> None:
    """On the same host, or it carries others that the last one did."""
    town.beat(WEB, every("1h"), every("1h", "mail"))
    town.beat("web-3:1:a", every("1h", "report"))
    town.pass_time(SECOND)
    town.beat(WEB, gone=True)
    left = town.now
    town.pass_time(SECOND)
    for _ in range(29):
        town.beat("web-3:1:a", since=START)
        town.beat(name, every("1h", "mail"), since=left + SECOND)
        assert town.kinds() == []
        town.pass_time(10 * SECOND)
    town.beat("web-3:1:a", since=START)
    town.beat(name, since=left + SECOND)
    town.pass_time(left + 5 * MINUTE - town.now - timedelta(microseconds=1))
    assert town.kinds() == town.fresh() == []
    town.pass_time(timedelta(microseconds=1))
    finding = town.the(AlertKind.SILENT)
    assert (finding.subject, finding.severity, finding.since) == ("billing", "warning", left + 5 * MINUTE)
    assert finding.remedy == REMOVED
    assert town.fresh() == ["silent/billing"]


def test_a_job_that_died_with_its_scheduler_is_silent_at_once_though_others_live(town: Town) -> None:
    town.beat(WEB, every("1h"), every("1h", "mail"))
    town.pass_time(SECOND)
    town.beat("web-2:1:a", every("1h", "mail"))
    town.pass_time(29 * SECOND)
    assert town.kinds() == [f"gone/{WEB}", "silent/billing"]
    assert town.the(AlertKind.SILENT).severity == "critical"


def test_a_job_in_the_store_that_the_living_do_not_carry_is_critical(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.node().do(add(town.hand, "mail", {"every": "1h", "command": ["./mail.sh"]}))
    finding = town.the(AlertKind.SILENT)
    assert (finding.subject, finding.severity) == ("mail", "critical")


def test_where_nobody_is_alive_that_is_one_finding(town: Town) -> None:
    town.beat(WEB, *(every("1h", f"job-{number}") for number in range(5)))
    town.pass_time(30 * SECOND - timedelta(microseconds=1))
    assert town.kinds() == []
    town.pass_time(timedelta(microseconds=1))
    assert town.kinds() == [f"gone/{WEB}", "silent/"]
    text = "no live scheduler runs 5 scheduled jobs: job-0, job-1, job-2 and 2 more."
    assert town.the(AlertKind.SILENT).text == text


def test_a_job_is_not_silent_that_is_paused_or_over_or_called_from_outside(town: Town) -> None:
    past = declare("launch", at=START + MINUTE)
    town.beat(WEB, every("1h"), past)
    outside = every("1h", "mail")
    town.run(outside, START, outside=True, digest="")
    town.name(outside)
    town.pass_time(2 * MINUTE + SECOND)
    town.node().do(town.hand.pause("billing"))
    assert town.kinds() == [f"gone/{WEB}", "missed/launch"]
    town.node().do(town.hand.resume("billing"))
    assert "silent/" in town.kinds()
    town.node().do(town.hand.pause_all())
    assert town.kinds() == [f"gone/{WEB}"]


def test_who_only_finds_what_is_due_or_is_drained_runs_nothing(town: Town) -> None:
    town.beat(WEB, every("1h"), role="schedule")
    assert town.kinds() == ["silent/"]
    town.beat("web-2:1:a", every("1h"))
    assert town.kinds() == []
    town.node().do(town.hand.drain(drained_holder("web-2:1:a")))
    assert town.kinds() == ["silent/"]
    town.node().do(town.hand.undrain(drained_holder("web-2:1:a")))
    town.beat("web-2:1:a", draining=True)
    assert town.kinds() == ["silent/"]
    town.beat("web-2:1:a", draining=False)
    assert town.kinds() == []


def test_a_job_in_the_store_is_silent_before_anybody_carries_it_and_not_after_it_was_removed(town: Town) -> None:
    town.node().do(add(town.hand, "mail", {"every": "1h", "command": ["./mail.sh"]}))
    assert town.kinds() == ["silent/"]
    town.node().do(remove(town.hand, "mail"))
    assert town.kinds() == []


def test_a_job_in_the_store_that_was_carried_and_removed_is_none(town: Town) -> None:
    town.node().do(add(town.hand, "mail", {"every": "1h", "command": ["./mail.sh"]}))
    town.beat(WEB, every("1h", "mail")._replace(revision=1))
    assert town.kinds() == []
    town.node().do(remove(town.hand, "mail"))
    town.beat("web-2:1:a", every("1h"))
    town.beat(WEB, gone=True)
    town.pass_time(2 * MINUTE)
    town.beat("web-2:1:a")
    assert town.kinds() == []


# --- gone ---


def test_a_scheduler_that_died_is_gone_until_another_takes_its_place(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.beat("web-2:1:a", every("1h"))
    town.beat(WEB, running=2)
    town.pass_time(29 * SECOND)
    town.beat("web-2:1:a")
    town.pass_time(SECOND - timedelta(microseconds=1))
    assert town.kinds() == []
    town.pass_time(timedelta(microseconds=1))
    finding = town.the(AlertKind.GONE)
    assert (finding.subject, finding.severity, finding.since) == (WEB, "warning", START + 30 * SECOND)
    assert "with 2 runs in progress" in finding.text
    town.beat("web-1:9:b", every("1h"))
    assert town.kinds() == []


def test_who_is_gone_is_told_of_for_a_quarter_of_an_hour(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.pass_time(30 * SECOND + 15 * MINUTE - timedelta(microseconds=1))
    assert town.kinds() == [f"gone/{WEB}", "silent/"]
    town.pass_time(timedelta(microseconds=1))
    assert town.kinds() == ["silent/"]
    town.pass_time(24 * HOUR)
    assert town.survey().bundles == {}  # what they carried is of no account any more


def test_an_older_process_of_the_host_does_not_take_the_place(town: Town) -> None:
    town.beat("web-1:0:a", every("1h"))
    town.pass_time(SECOND)
    town.beat(WEB, every("1h"))
    town.pass_time(25 * SECOND)
    town.beat("web-1:0:a", since=START)
    town.pass_time(10 * SECOND)
    assert town.kinds() == [f"gone/{WEB}"]


def test_a_younger_process_that_ran_beside_it_does_not_take_the_place(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.pass_time(SECOND)
    town.beat("web-1:2:a", every("1h"))
    town.beat(WEB, since=START)
    town.pass_time(25 * SECOND)
    town.beat("web-1:2:a", since=START + SECOND)
    town.pass_time(5 * SECOND)
    assert town.kinds() == [f"gone/{WEB}"]


def test_each_takes_the_place_of_one(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.beat("web-1:2:a", every("1h"))
    town.pass_time(30 * SECOND)
    assert town.kinds() == [f"gone/{WEB}", "gone/web-1:2:a", "silent/"]
    town.beat("web-1:3:a", every("1h"))
    assert len(town.look()) == 1
    town.beat("web-1:4:a", every("1h"))
    assert town.kinds() == []
    town.pass_time(40 * SECOND)  # both died, and both have a successor
    town.beat("web-1:5:a", every("1h"))
    town.beat("web-1:6:a", every("1h"))
    assert town.kinds() == []


def test_who_leaves_is_not_gone(town: Town) -> None:
    town.beat(WEB, every("1h"), gone=True)
    town.pass_time(5 * MINUTE)
    assert town.kinds() == ["silent/"]


@pytest.mark.parametrize(
    ("seconds", "every_", "state"),
    [
        (0, 10, "alive"),
        (20, 10, "alive"),
        (20.000001, 10, "late"),
        (2, 1, "alive"),
        (2.000001, 1, "late"),
        (29.999999, 1, "late"),
        (30, 10, "dead"),
    ],
)
def test_a_beat_is_late_after_two_and_dead_when_it_lapses(seconds: float, every_: int, state: str) -> None:
    holder = Holder(WEB, "", "both", 1, {}, START, "", every=every_ * SECOND)
    now = START + timedelta(seconds=seconds)
    seen = HolderSeen(holder, START + 30 * SECOND, None)
    assert seen.life(now) == state
    assert seen._replace(holder=holder._replace(gone=True)).life(now) == "dead"


# --- crowded ---


def test_more_schedulers_than_expected_are_a_crowd(town: Town) -> None:
    town.settings = Settings(schedulers=1)
    town.beat(WEB, every("1h"))
    town.beat("work-1:1:a", every("1h"), role="work")
    assert town.kinds() == []
    town.beat("web-2:1:a", every("1h"), role="schedule")
    assert town.the(AlertKind.CROWDED).text == f"2 schedulers are alive, and 1 expected: {WEB}, web-2:1:a."
    town.settings = Settings()
    assert town.kinds() == []  # nobody said how many
    town.settings = Settings(schedulers=1)
    assert town.kinds() == ["crowded/"]
    town.beat("web-2:1:a", gone=True)
    assert town.kinds() == []


# --- skew ---


def test_a_clock_that_is_off_is_told_of_once_for_a_machine(town: Town) -> None:
    town.beat(WEB, every("1h"), skew=SECOND)
    assert town.kinds() == []
    town.beat(WEB, skew=-SECOND - timedelta(microseconds=1))
    town.beat("web-1:2:a", every("1h"), skew=timedelta(seconds=90))
    finding = town.the(AlertKind.SKEW)
    assert (finding.subject, finding.text) == ("web-1", "the clock of web-1 is 1m 30s ahead of the store's.")
    town.beat("web-1:2:a", skew=timedelta(0))
    assert town.the(AlertKind.SKEW).text == "the clock of web-1 is 1s behind the store's."
    town.beat(WEB, skew=timedelta(0))
    assert town.kinds() == []


# --- superseded ---


def test_an_old_version_that_lives_on_beside_the_new_is_superseded(town: Town) -> None:
    jobs = [every("1h"), every("1h", "mail")]
    town.beat(WEB, *jobs)
    town.pass_time(HOUR)
    since = town.now
    for passed in range(31):
        town.beat(WEB, since=START)
        town.beat("web-2:1:a", every("2h"), jobs[1], since=since)
        found = [one for one in town.look() if one.kind is AlertKind.SUPERSEDED]
        assert bool(found) == (passed > 30)
        town.pass_time(20 * SECOND)
    town.beat(WEB, since=START)
    town.beat("web-2:1:a", since=since)
    finding = town.the(AlertKind.SUPERSEDED)
    assert (finding.subject, finding.since) == (WEB, since)
    assert (
        f"for 10m 20s, {WEB} has had an outdated version of 1 job: billing. Only the newest version runs."
        in finding.text
    )
    town.beat(WEB, gone=True)
    town.beat("web-2:1:a", since=since)
    assert AlertKind.SUPERSEDED not in [one.kind for one in town.look()]


def test_who_has_just_come_may_carry_an_old_version_for_a_while(town: Town) -> None:
    town.beat(WEB, every("1h"))
    town.beat("web-2:1:a", every("2h"))
    town.pass_time(HOUR)
    town.beat("web-2:1:a")
    town.beat("web-3:1:a", every("1h"))
    assert AlertKind.SUPERSEDED not in [one.kind for one in town.look()]


# --- what they mean by a name, and by a zone ---


def test_one_name_for_two_functions_is_told_of_while_both_are_alive(town: Town) -> None:
    """Two applications shared the slots of a job: one ran 1, the other 5, and nothing was said."""
    shop, ledger = (every("1h")._replace(code=code) for code in ("shop.jobs:billing", "ledger.jobs:billing"))
    town.beat(WEB, shop)
    town.beat("web-2:1:a", shop)
    assert town.kinds() == []
    town.beat("web-3:1:a", ledger)
    finding = town.the(AlertKind.SHARED_NAME)
    assert (finding.subject, finding.severity) == ("billing", "warning")
    assert finding.text == (
        "billing is the name of more than one function: ledger.jobs:billing (web-3:1:a), shop.jobs:billing (web-1:1:a)."
        " Each slot runs only one of them."
    )
    assert decode_job(town.store.load(["job/billing"]).cells[0].value).code == "shop.jobs:billing"
    town.beat("web-3:1:a", gone=True)
    assert town.kinds() == []


def test_code_that_moves_is_on_record_where_it_is_when_the_old_processes_are_gone(town: Town) -> None:
    town.beat(WEB, every("1h")._replace(code="jobs:billing"))
    town.beat(WEB, gone=True)
    town.beat("web-2:1:a", every("1h")._replace(code="jobs.money:billing"))
    assert town.kinds() == []
    assert decode_job(town.store.load(["job/billing"]).cells[0].value).code == "jobs.money:billing"


def test_versions_of_the_time_zone_database_that_differ_are_told_of(town: Town) -> None:
    town.beat(WEB, every("1h"), tzdata="2026a")
    town.beat("web-2:1:a", tzdata="")  # it needs none
    assert town.kinds() == []
    town.beat("web-3:1:a", tzdata="2025b")
    assert town.the(AlertKind.TZDATA).text == (
        "machines have different versions of the time zone database: 2025b (web-3:1:a), 2026a (web-1:1:a)."
    )
    town.beat("web-3:1:a", gone=True)
    assert town.kinds() == []


def test_a_machine_that_only_calls_exec_says_its_version_for_a_day(town: Town) -> None:
    town.beat(WEB, every("1h"), tzdata="2026a")
    note = encode_notice(Machine("boot", (), "cron-7", "2025b"))
    write = Write("machine/boot", ABSENT, note, Mark.FREE, ttl=NOTES_TTL)
    town.store.swap([write], town.store.load([]).epoch.seen)
    assert town.the(AlertKind.TZDATA).text == (
        "machines have different versions of the time zone database: 2025b (on cron-7), 2026a (web-1:1:a)."
    )
    town.pass_time(24 * HOUR)
    town.beat(WEB, tzdata="2026a")
    assert [kind for kind in town.kinds() if kind == AlertKind.TZDATA] == []


def test_who_is_gone_is_told_of_with_what_becomes_of_its_runs(town: Town) -> None:
    """Within 31 s of its last beat, also while no page is open; the same words stand on the run itself."""
    job = every("1h")
    town.beat("web-2:1:a", job)
    town.pass_time(HOUR)
    town.beat(WEB, job)
    town.run(job, START + HOUR, None, by=WEB, lease=5 * MINUTE)
    town.pass_time(29 * SECOND)
    town.beat("web-2:1:a")
    town.pass_time(2 * SECOND)
    (run,) = town.survey().open
    fate_told = "its scheduler is gone (no heartbeat for 31s); the lease ends in 4m 29s; then it is closed as lost"
    assert (run.shown, fate(run)) == ("host gone", fate_told)
    assert town.the(AlertKind.GONE).text.endswith(f" billing@2026-03-29T13:00:00Z: {fate_told}.")

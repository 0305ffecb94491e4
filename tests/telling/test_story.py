"""Why a slot ran or did not: the exact words, on stores that the real ledger wrote."""

import json
from collections.abc import Iterable
from datetime import timedelta

import pytest

from cronce.errors import BadInput
from cronce.model import ABSENT, Instant, Mark, Slot, Write, refusals_cell, to_us
from cronce.protocol.commands import Closed, Finish, Queue, Resolve, Skip
from cronce.protocol.notices import Refusals, Refused, encode_notice
from cronce.protocol.record import Act, Job, Outcome, Spec
from cronce.protocol.specs import raise_floor
from cronce.runtime.journal import PendingEnd, UnaskedCall
from cronce.runtime.ledger import Grant
from cronce.runtime.why import Case, Why, slot_meant, why
from cronce.schedule import parse_schedule, spec_of
from cronce.stores.base import next_life
from cronce.telling.story import about, tell
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, Wire, beat, claim, granted

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def finish(node: HandNode, grant: Grant, outcome: Outcome = Outcome.SUCCEEDED, reason: str = "", **how: object) -> None:
    node.do(node.ledger.finish(grant, outcome, reason, **how))  # type: ignore[arg-type]


def watch(clock: HandClock, node: HandNode, seconds: int) -> None:
    """Let time pass while the node looks at the store's clock now and then."""
    for _ in range(seconds):
        clock.turn(1.0)
        node.do(node.ledger.overdue())
        node.do(node.ledger.client.probe())


def declare(node: HandNode, *texts: str, floor: Instant = START - SECOND, **policies: object) -> None:
    """The job with these schedules, as calls from outside put them on record."""
    specs = [json.dumps({"schedule": spec_of(parse_schedule(text)), **policies}) for text in texts]
    versions = tuple(Spec(f"v{place}", START, text) for place, text in enumerate(specs))
    node.do(node.ledger.jobs.edit("billing", lambda job, _now: (job or Job(floor))._replace(specs=versions)))


def refuse(store: Wire, host: str, slots: Iterable[tuple[Slot, Instant, str]], times: int) -> None:
    """What a host was refused, as it reports it with its beat."""
    recent = tuple(Refused(slot.key, at, why) for slot, at, why in slots)
    value = encode_notice(Refusals(times, recent))
    store.swap([Write(refusals_cell("billing", host), ABSENT, value, Mark.OPEN)], store.load([]).epoch.seen)


def asked(store: Wire, slot: Slot | None = SLOT) -> Why:
    watcher = HandNode(store, "a person")
    found = watcher.do(why("billing", slot, store.traits))
    assert found is not None
    return found


def told(store: Wire, slot: Slot = SLOT) -> str:
    found = asked(store, slot)
    (story,) = found.stories
    return tell(story, found)


def later(minutes: int) -> Slot:
    return Slot("billing", START + minutes * MINUTE)


# --- it ran, or runs ---


def test_a_slot_that_ran_says_who_ran_it_who_was_refused_and_what_it_printed(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    grant = granted(node)
    clock.turn(1)
    refuse(
        store,
        "web-2",
        [(SLOT, clock.wall(), "web-2:17:c0ffee: held by web-1"), (later(1), clock.wall(), "another slot")],
        2,
    )
    clock.turn(3)
    finish(node, grant, output="3 reports sent\n\x1b[31mdone\n")
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z succeeded: web-1 ran it from 12:00:00Z to 12:00:04Z (4s).
  12:00:00Z  granted to web-1
  12:00:01Z  web-2:17:c0ffee was refused: held by web-1
  12:00:04Z  succeeded
  the end of its output:
    | 3 reports sent
    | \\x1b[31mdone"""
    )


def test_who_was_refused_in_the_second_of_the_grant_stands_below_it(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    """Another process reads the store's clock a little differently."""
    clock.turn(0.5)
    grant = granted(node)
    early = [(SLOT, clock.wall() - 300 * SECOND / 1000, "held by web-1"), (SLOT, START - SECOND, "too early")]
    refuse(store, "web-2", early, 2)
    clock.turn(0.2)
    finish(node, grant)
    assert told(store).splitlines()[1:] == [
        "  11:59:59Z  web-2 was refused: too early",
        "  12:00:00Z  granted to web-1",
        "  12:00:00Z  web-2 was refused: held by web-1",
        "  12:00:00Z  succeeded",
    ]


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("it is closed: failed, exit code 3", "it had failed already (exit code 3)"),
        ("it is closed: succeeded", "it had succeeded already"),
        ("it is closed: lost, its process died", "it was lost already (its process died)"),
        ("it is closed: unknown", "it was closed as unknown already"),
    ],
)
def test_a_call_for_a_slot_that_is_closed_says_so_in_one_sentence(
    node: HandNode, store: Wire, why: str, told: str
) -> None:
    granted(node)
    refuse(store, "web-2", [(SLOT, START + SECOND, f"web-2:7:a: {why}")], 1)
    (story,) = (found := asked(store)).stories
    assert tell(story, found).splitlines()[-1] == f"  12:00:01Z  web-2:7:a did not run it: {told}"


def test_a_slot_that_is_running_says_since_when_and_who_was_refused(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node)
    clock.turn(1)
    refuse(store, "web-2", [(SLOT, clock.wall(), "held by web-1")], 1)
    node.do(node.ledger.ask(SLOT, "a person wants it to stop"))
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z is running: web-1 has had it since 12:00:00Z (1s). If its lease is not\
 renewed by 12:00:10Z, the next call or scheduler closes it as lost. It was asked to stop: a person wants it to stop.
  12:00:00Z  granted to web-1
  12:00:01Z  web-2 was refused: held by web-1"""
    )


def test_a_run_that_does_not_stop_is_overdue_still_running(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node, "@hourly")
    grant = granted(node)
    clock.turn(7)
    node.do(node.ledger.renew([grant], overdue={grant.fence: "timed out after 5s"}))
    assert told(store).splitlines()[0] == (
        "billing@2026-03-29T12:00:00Z is overdue, still running: web-1 has had it since 12:00:00Z (7s), and was told to"
        " stop (timed out after 5s). Its effects are refused, and it keeps its turn until it has ended. A job"
        " with isolate=True can be killed."
    )


def test_what_the_journal_of_this_machine_knows_of_a_slot_is_told(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node, "@hourly")
    grant = granted(node)
    later = START + 3 * SECOND
    end = PendingEnd(grant.key, Finish(grant.fence, Outcome.SUCCEEDED), "web-1", later)
    call = UnaskedCall(SLOT.key, "could not ask the store: connection refused", "web-1", later)
    found = asked(store)._replace(journal=(end, call, call._replace(slot="sync@2026-03-29T12:00:00Z")))
    assert tell(found.stories[0], found).splitlines()[-2:] == [
        "  in this machine's journal: succeeded at 12:00:03Z on web-1, not on record yet",
        "  in this machine's journal: at 12:00:03Z web-1 could not ask the store: connection refused",
    ]


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("could not ask the store: connection refused", "reach the store"),
        ("could not start its command: there is no file /srv/slwo.sh to run", "start its command"),
    ],
)
def test_a_slot_for_which_a_call_came_to_nothing_says_so(
    node: HandNode, store: Wire, clock: HandClock, reason: str, what: str
) -> None:
    """It said that nobody has claimed it, and no more."""
    declare(node, "@hourly")
    refuse(store, "web-1", [(SLOT, START + SECOND, f"web-1:7:a: {reason}")], 1)
    clock.turn(60)
    assert told(store).splitlines() == [
        f"billing@2026-03-29T12:00:00Z fell due 1m ago: a process called for it, but could not {what}.",
        f"  12:00:01Z  called by web-1:7:a: {reason}",
    ]


BY_HAND = f"To run it again: `cronce rerun {SLOT.key}`. If the work is done: `cronce resolve {SLOT.key} done`."


@pytest.mark.parametrize(
    ("on_lost", "then", "more"),
    [("skip", "closes it as lost", f"\n  {BY_HAND}"), ("rerun", "takes it over", "")],
)
def test_a_slot_whose_lease_passed_says_what_will_become_of_it(
    node: HandNode, store: Wire, clock: HandClock, on_lost: str, then: str, more: str
) -> None:
    granted(node, on_lost=on_lost)
    clock.turn(11)
    assert (
        told(store)
        == f"""\
billing@2026-03-29T12:00:00Z was granted to web-1 at 12:00:00Z, until 12:00:10Z: its lease has expired; the next\
 scheduler or call of this job {then}.
  12:00:00Z  granted to web-1{more}"""
    )


def test_a_rerun_that_was_asked_to_stop_is_told_to_be_closed_and_is(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node, on_lost="rerun")
    node.do(node.ledger.ask(SLOT, "enough"))
    assert "If its lease is not renewed by 12:00:10Z, the next call or scheduler closes it as lost." in told(store)
    watch(clock, other, 11)
    assert "the next scheduler or call of this job closes it as lost." in told(store)
    answer = claim(other, on_lost="rerun")
    assert isinstance(answer, Closed)
    assert answer.outcome is Outcome.LOST
    assert "it was asked to stop, so it does not run again." in told(store)


def test_a_takeover_is_told_in_its_order(node: HandNode, other: HandNode, store: Wire, clock: HandClock) -> None:
    granted(node, on_lost="rerun")
    watch(clock, other, 11)
    grant = granted(other, on_lost="rerun")
    clock.turn(86_400)
    finish(other, grant)
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z succeeded: web-2 ran it from 12:00:11Z to 2026-03-30T12:00:11Z (1d).
  12:00:00Z             granted to web-1
  12:00:11Z             lapsed: its lease was not renewed
  12:00:11Z             taken over by web-2
  2026-03-30T12:00:11Z  succeeded"""
    )


def test_a_slot_that_was_lost_says_so_and_that_it_does_not_run_again(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node)
    watch(clock, other, 11)
    claim(other)
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z is lost: web-1 was granted it at 12:00:00Z and did not renew its lease, which\
 was noticed at 12:00:11Z. There is no record of how much of its work is done; on_lost="skip" does not run it again.
  12:00:00Z  granted to web-1
  12:00:11Z  lost: its holder web-1 did not renew its lease
  To run it again: `cronce rerun billing@2026-03-29T12:00:00Z`. If the work is done: `cronce resolve\
 billing@2026-03-29T12:00:00Z done`."""
    )
    clock.turn(60)
    other.do(other.ledger.resolve(SLOT, Resolve("done", "ada looked")))
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z counts as succeeded since 12:01:11Z, resolved: ada looked.
  12:00:00Z  granted to web-1
  12:00:11Z  lost: its holder web-1 did not renew its lease
  12:01:11Z  succeeded: resolved: ada looked"""
    )


def test_a_slot_that_a_rerun_has_settled_names_the_rerun(node: HandNode, store: Wire) -> None:
    """It read `succeeded: resolved: by …#rerun-1`."""
    finish(node, granted(node), Outcome.FAILED, "boom")
    rerun = f"{SLOT.key}#rerun-1"
    node.do(node.ledger.resolve(SLOT, Resolve("done", f"by {rerun}")))
    first, *_, last = told(store).splitlines()
    assert first == f"{SLOT.key} counts as succeeded since 12:00:00Z, by rerun {rerun}."
    assert last == f"  12:00:00Z  succeeded by rerun {rerun}"


def test_a_slot_of_a_store_without_reruns_is_retried_as_itself(node: HandNode, store: Wire) -> None:
    finish(node, granted(node), Outcome.FAILED, "boom")
    found = asked(store)._replace(history=False)
    assert f"To run it again: `cronce resolve {SLOT.key} retry`." in tell(found.stories[0], found)


def test_a_slot_that_ten_in_a_row_have_died_with_says_so_and_waits_for_a_person(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node, on_lost="rerun")
    for _ in range(11):
        watch(clock, other, 11)
        claim(other, on_lost="rerun")
    assert (
        told(store)
        .splitlines()[0]
        .endswith(
            "There is no record of how much of its work is done; 10 runs before it ended the same way: find out why"
            " before you retry it."
        )
    )
    assert told(store).splitlines()[-2].endswith("did not renew its lease, nor did those before it")
    other.do(other.ledger.resolve(SLOT, Resolve("retry", "more memory")))
    assert isinstance(claim(other, on_lost="rerun"), Grant)


def test_a_slot_that_somebody_had_tried_again_says_when_it_was_lost_and_when_they_looked(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node)
    watch(clock, other, 11)
    claim(other)
    clock.turn(60)
    other.do(other.ledger.resolve(SLOT, Resolve("retry", "by ada: fixed")))
    assert told(store).splitlines()[1:4] == [
        "  12:00:00Z  granted to web-1",
        "  12:00:11Z  lost: its holder web-1 did not renew its lease",
        "  12:01:11Z  retried: by ada: fixed",
    ]


def test_words_of_a_job_that_look_like_ours_are_not_taken_for_what_a_person_said(node: HandNode, store: Wire) -> None:
    finish(node, granted(node), Outcome.FAILED, "HTTP 500, retried: 3 times; endpoint superseded by /v2")
    found = asked(store)
    assert f"`cronce rerun {SLOT.key}`" in tell(found.stories[0], found)
    node.do(node.ledger.resolve(SLOT, Resolve("retry", "by ada: fixed")))
    assert told(store).splitlines()[2:4] == [
        "  12:00:00Z  failed: HTTP 500, retried: 3 times; endpoint superseded by /v2",
        "  12:00:00Z  retried: by ada: fixed",
    ]


def test_a_slot_that_is_tried_again_says_which_attempt_failed_and_from_when_the_next_may_start(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    grant = granted(node, attempts=2)
    clock.turn(2)
    finish(node, grant, Outcome.FAILED, "boom", backoff=timedelta(seconds=30))
    timeline = """
  12:00:00Z  granted to web-1
  12:00:02Z  failed: boom"""
    said = "billing@2026-03-29T12:00:00Z is retrying: attempt 1 of 2 failed: boom; it may be claimed"
    assert told(store) == f"{said} from 12:00:32Z on (in 30s).{timeline}"
    clock.turn(31)
    assert told(store) == f"{said} now.{timeline}"
    grant = granted(other, attempts=2)
    clock.turn(2)
    finish(other, grant, Outcome.FAILED, "boom again")
    assert (
        told(store)
        == f"""\
billing@2026-03-29T12:00:00Z failed at 12:00:35Z on web-2, attempt 2 of 2: boom again.{timeline}
  12:00:33Z  granted to web-2
  12:00:35Z  failed: boom again
  To run it again: `cronce rerun billing@2026-03-29T12:00:00Z`. If the work is done: `cronce resolve\
 billing@2026-03-29T12:00:00Z done`."""
    )


def test_a_run_that_was_cut_short_used_up_no_attempt(node: HandNode, store: Wire) -> None:
    finish(node, granted(node, on_lost="rerun"), Outcome.FAILED, "the machine goes down", cut_short=True)
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z is retrying: it was stopped early (the machine goes down), which does not count as\
 an attempt; it may be claimed now.
  12:00:00Z  granted to web-1
  12:00:00Z  failed: the machine goes down"""
    )


def test_a_slot_that_failed_says_why(node: HandNode, store: Wire, clock: HandClock) -> None:
    grant = granted(node)
    clock.turn(2)
    finish(node, grant, Outcome.FAILED, "exit code 3")
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z failed at 12:00:02Z on web-1: exit code 3.
  12:00:00Z  granted to web-1
  12:00:02Z  failed: exit code 3
  To run it again: `cronce rerun billing@2026-03-29T12:00:00Z`. If the work is done: `cronce resolve\
 billing@2026-03-29T12:00:00Z done`."""
    )


# --- it was skipped, or waits ---


def test_a_slot_that_was_too_late_to_start_says_so(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node, "* * * * *", start_within="5s")
    clock.turn(60)
    claim(node, start_within=timedelta(seconds=5))
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z was skipped at 12:01:00Z: by then it was too late to start (start_within is 5s).
  12:01:00Z  skipped: too late to start"""
    )


def test_a_slot_that_overlap_skipped_names_the_run_that_still_ran(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    granted(node)
    clock.turn(2)
    after = Slot("billing", START + SECOND)
    claim(other, after)
    assert (
        told(store, after)
        == """\
billing@2026-03-29T12:00:01Z was skipped at 12:00:02Z: billing@2026-03-29T12:00:00Z had not ended, and overlap="skip"\
 skips it then.
  12:00:02Z  skipped: billing@2026-03-29T12:00:00Z had not ended"""
    )


def test_a_slot_that_waits_names_the_run_that_has_the_turn(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    grant = granted(node)
    clock.turn(2)
    after = Slot("billing", START + SECOND)
    claim(other, after, overlap="wait")
    waiting = "billing@2026-03-29T12:00:01Z is waiting for the job's turn"
    assert told(store, after) == f"{waiting}: billing@2026-03-29T12:00:00Z has it until 12:00:10Z at least."
    finish(node, grant)
    assert told(store, after) == f"{waiting}, and no other run has the turn: the next claim gets it."


def test_a_slot_that_somebody_skipped_says_why(node: HandNode, store: Wire) -> None:
    node.do(node.ledger.put({SLOT: Skip("a person skipped it", first=SLOT.at)}))
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z was skipped at 12:00:00Z: a person skipped it.
  12:00:00Z  skipped: a person skipped it"""
    )


def test_a_slot_that_is_due_says_who_had_it(node: HandNode, store: Wire) -> None:
    node.do(node.ledger.put({later(0): Queue(first=SLOT.at)}))
    assert told(store) == "billing@2026-03-29T12:00:00Z is due, and no process has claimed it; it may be claimed now."
    node.do(node.ledger.release([granted(node)], rest=timedelta(seconds=30)))
    assert (
        told(store)
        == """\
billing@2026-03-29T12:00:00Z is due, and no process has claimed it, web-1 had it last (given back, never started); it\
 may be claimed from 12:00:30Z on (in 30s).
  12:00:00Z  granted to web-1
  12:00:00Z  given back, never started"""
    )


# --- it has no record ---


def test_a_slot_of_a_paused_job_says_so(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node, "*/5 * * * *")
    node.do(node.ledger.jobs.pause("billing"))
    clock.turn(301)
    assert told(store, later(5)) == (
        "billing@2026-03-29T12:05:00Z has not run: billing is paused, and slots that have not started when it is"
        " resumed do not run."
    )
    node.do(node.ledger.jobs.resume("billing"))
    assert told(store, later(5)) == (
        "billing@2026-03-29T12:05:00Z has no record and will not run: billing was paused until 12:05:01Z, and slots"
        " up to then that had not started do not run."
    )


def test_a_slot_that_was_due_before_the_pause_says_why_it_will_not_run(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    """It said that slots that fell due meanwhile do not run, and this one did not."""
    declare(node, "*/5 * * * *")
    clock.turn(301)
    node.do(node.ledger.jobs.pause("billing", "ada"))
    clock.turn(1)
    node.do(node.ledger.jobs.resume("billing", "bob"))
    assert told(store, later(5)) == (
        "billing@2026-03-29T12:05:00Z has no record and will not run: billing was paused by ada at"
        " 2026-03-29T12:05:01Z, resumed by bob at 12:05:02Z, and slots up to then that had not started do not run."
    )


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("edited", "the schedule was edited at 12:05:01Z, and a new schedule does not run slots of the past"),
        ("purged", "runs that closed until 12:05:01Z were purged, so there is no record of whether it ran"),
        ("registered", "billing was registered at 12:05:01Z, and slots before that do not run"),
        ("superseded", "slots from 11:59:59Z to 12:05:01Z were passed over (superseded)"),
    ],
)
def test_a_slot_below_the_floor_says_what_raised_it(
    node: HandNode, store: Wire, clock: HandClock, reason: str, says: str
) -> None:
    declare(node, "*/5 * * * *")
    clock.turn(301)
    node.do(node.ledger.jobs.edit("billing", lambda job, now: job and raise_floor(job, now, None, reason)))
    assert told(store, later(5)) == f"billing@2026-03-29T12:05:00Z has no record and will not run: {says}."


def test_an_edit_by_a_newer_deploy_says_so(node: HandNode, other: HandNode, store: Wire, clock: HandClock) -> None:
    old, new = (json.dumps({"schedule": spec_of(parse_schedule(text))}) for text in ("every 5m", "every 10m"))
    beat(node, {"billing": ("v1", old)})
    clock.turn(301)
    beat(other, {"billing": ("v2", new)})
    clock.turn(1)
    assert told(store, later(5)) == (
        "billing@2026-03-29T12:05:00Z has no record and will not run: the schedule was edited at 12:05:01Z (schedule"
        " every 5m → every 10m), and a new schedule does not run slots of the past."
    )
    assert asked(store).job.schedules == (parse_schedule("every 10m"),)


def test_a_slot_that_is_older_than_its_job_says_so(node: HandNode, store: Wire) -> None:
    declare(node, "*/5 * * * *")
    assert told(store, later(-5)) == (
        "billing@2026-03-29T11:55:00Z has no record and will not run: it was due before billing was called for"
        " the first time, and such slots do not run."
    )


def test_after_the_store_forgot_nobody_can_tell(node: HandNode, store: Wire, clock: HandClock) -> None:
    declare(node, "*/5 * * * *")
    granted(node)
    clock.turn(301)
    store._epoch = next_life(to_us(clock.wall()), store._epoch.seen, store._epoch, store._last_write)
    assert told(store, later(5)) == (
        "billing@2026-03-29T12:05:00Z has no record and will not run: the store lost its records from before 12:05:01Z,"
        " so there is no record of whether it ran."
    )
    assert told(store).startswith(
        "billing@2026-03-29T12:00:00Z was open when the store lost its records, at 12:05:01Z: there is no"
        " record of whether it ran. The next process that reads it closes it as unknown.\n"
    )
    claim(HandNode(store, "web-3"))
    assert told(store).startswith(
        "billing@2026-03-29T12:00:00Z is unknown since 12:05:01Z: the store forgot what became of it. The store has"
        " no record of whether it ran.\n"
    )


@pytest.mark.parametrize("job", ["as it was", "edited", "unreadable"])
def test_what_was_open_when_the_store_forgot_is_told_as_whoever_looks_next_takes_it(
    node: HandNode, store: Wire, clock: HandClock, job: str
) -> None:
    by_hand = SLOT._replace(request="again")
    declare(node, "*/5 * * * *")
    granted(node)
    node.do(node.ledger.put({by_hand: Queue(by="ada")}))
    clock.turn(301)
    store._epoch = next_life(to_us(clock.wall()), store._epoch.seen, store._epoch, store._last_write)
    read = store.load(["job/billing"])
    if job == "edited":
        declare(HandNode(store, "web-2"), "*/10 * * * *")
    if job == "unreadable":
        store.swap([Write("job/billing", read.cells[0].version, '{"v":99}', Mark.OPEN)], read.epoch.seen)
    for slot in (SLOT, by_hand):
        assert [story.case for story in asked(store, slot).stories] == [Case.FORGOTTEN]
    web = HandNode(store, "web-3")
    web.do(web.ledger.settle(store.load([SLOT.cell, by_hand.cell]).cells))
    for slot in (SLOT, by_hand):
        assert [story.case for story in asked(store, slot).stories] == [Case.UNKNOWN]


def test_a_slot_that_nobody_claimed_says_how_long_ago_it_fell_due(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node, "*/5 * * * *")
    clock.turn(400)
    refuse(store, "web-2", [(later(5), START + 301 * SECOND, "the store gave no answer")], 1)
    assert (
        told(store, later(5))
        == """\
billing@2026-03-29T12:05:00Z fell due 1m 40s ago, and no process has claimed it.
  12:05:01Z  web-2 was refused: the store gave no answer"""
    )


def test_a_slot_to_come_says_when(node: HandNode, store: Wire) -> None:
    declare(node, "*/5 * * * *")
    assert told(store, later(65)) == "billing@2026-03-29T13:05:00Z is not due yet: it is in 1h 5m."


def test_what_is_no_slot_is_told_from_the_nearest_that_are(node: HandNode, store: Wire) -> None:
    declare(node, "*/5 * * * *")
    assert told(store, later(7)) == (
        "billing@2026-03-29T12:07:00Z is not a slot: billing runs every 5 minutes (*/5 * * * *). The nearest are"
        " 2026-03-29T12:05:00Z and 2026-03-29T12:10:00Z."
    )
    declare(node, "at 2026-03-29T12:00:00Z")
    assert told(store, later(7)) == (
        "billing@2026-03-29T12:07:00Z is not a slot: billing runs once, at 2026-03-29 12:00:00 UTC"
        " (at 2026-03-29T12:00:00Z). The nearest is 2026-03-29T12:00:00Z."
    )


def test_the_nearest_are_those_around_it_however_long_ago_that_was(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    """The later one was that after now, or after the job was known."""
    declare(node, "*/15 * * * *", floor=START + 60 * MINUTE)
    around = "The nearest are 2026-03-29T12:00:00Z and 2026-03-29T12:15:00Z."
    assert told(store, later(1)).endswith(around)
    clock.turn(3 * 3600)
    assert told(store, later(1)).endswith(around)


@pytest.mark.parametrize("lack", ["older than the job", "no slot any more", "while it is paused"])
def test_a_slot_without_a_record_names_its_backfill(node: HandNode, store: Wire, clock: HandClock, lack: str) -> None:
    """`why` said that it will not run, though a backfill had run it."""
    paused = lack == "while it is paused"
    declare(
        node, "7 * * * *" if lack == "no slot any more" else "*/5 * * * *", floor=START + (-1 if paused else 9) * SECOND
    )
    backfill = SLOT._replace(request="backfill")
    node.do(node.ledger.put({backfill: Queue(by="ada", key=SLOT.key)}))
    assert told(store) == (
        f"{SLOT.key} was backfilled: {backfill.key} is due, and no process has claimed it; it may be claimed now."
    )
    grant = granted(node, backfill)
    clock.turn(4)
    finish(node, grant)
    if paused:
        pause = Act("ada", clock.wall())
        node.do(node.ledger.jobs.edit("billing", lambda job, _now: (job or Job(START))._replace(paused=pause)))
    assert asked(store).stories[0].case is (Case.PAUSED if paused else Case.TOO_OLD)
    assert told(store) == (
        f"{SLOT.key} was backfilled: {backfill.key} succeeded: web-1 ran it from 12:00:00Z to 12:00:04Z (4s)."
    )
    assert "backfill" not in told(store, later(-60))


def test_a_run_by_hand_that_nobody_asked_for_is_on_no_record(node: HandNode, store: Wire) -> None:
    declare(node, "*/5 * * * *")
    again = SLOT._replace(request="again")
    assert told(store, again) == (
        "billing@2026-03-29T12:00:00Z#again does not exist: it has no record, and no run was requested for it by hand."
    )
    node.do(node.ledger.put({again: Queue(by="ada", payload='{"month":3}', key=SLOT.key)}))
    finish(node, granted(node, again))
    assert told(store, again).splitlines()[1:3] == [
        '  asked for by ada, with {"month":3}',
        "  its effects use the key billing@2026-03-29T12:00:00Z",
    ]
    assert told(store, again).startswith("billing@2026-03-29T12:00:00Z#again succeeded: web-1 ran it")


# --- a job ---


def test_a_job_tells_of_what_is_due_what_is_open_and_what_was_last(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    declare(node, "*/5 * * * *")
    finish(node, granted(node, attempts=2), Outcome.FAILED, "boom", backoff=timedelta(hours=1))
    clock.turn(400)
    refuse(store, "web-2", [], 17)
    refuse(store, "web-3", [], 1)
    found = asked(store, None)
    assert (
        about(found)
        == """\
billing runs every 5 minutes (*/5 * * * *).
Its next slot is 2026-03-29T12:10:00Z (in 3m 20s).
Calls that did not run: 18, from web-2 (17), web-3 (1)."""
    )
    said = [about(found, prevented).splitlines()[2] for prevented in (0, 1, 17)]
    assert said == [
        "Calls that did not run: 18 (none would have been a duplicate), from web-2 (17), web-3 (1).",
        "Calls that did not run: 18 (1 would have been a duplicate), from web-2 (17), web-3 (1).",
        "Calls that did not run: 18 (17 would have been duplicates), from web-2 (17), web-3 (1).",
    ]
    more = about(found, 20).splitlines()[2:]  # schedulers leave no word of theirs
    assert more == ["Calls that did not run: 18, from web-2 (17), web-3 (1).", "Duplicate runs prevented: 20."]
    due, retrying = (tell(story, found).partition("\n")[0] for story in found.stories)
    assert due == "billing@2026-03-29T12:05:00Z fell due 1m 40s ago, and no process has claimed it."
    assert retrying.startswith(
        "billing@2026-03-29T12:00:00Z is retrying: attempt 1 of 2 failed: boom; it may be claimed"
    )


def test_a_job_tells_of_its_lost_slot_and_a_day_of_those_on_record(
    node: HandNode, other: HandNode, store: Wire, clock: HandClock
) -> None:
    """A lost slot was left out as soon as a later one had run; a day began before there was a job. How long a lost run
    took is not known: it was the time until that was noticed."""
    declare(node, "*/5 * * * *")
    granted(node)
    watch(clock, other, 320)
    claim(other)
    finish(other, granted(other, slot=later(5)))
    assert [(story.slot, story.case) for story in asked(store, None).stories] == [
        (later(5), Case.SUCCEEDED),
        (SLOT, Case.LOST),
    ]
    (lost,) = asked(store).stories
    assert lost.run
    assert lost.run.record
    assert lost.run.record.took() is None
    with pytest.raises(BadInput) as refused:
        node.do(slot_meant("billing@2026-03-29"))
    assert str(refused.value).splitlines() == [
        "billing has several slots on 2026-03-29; name one, such as:",
        f"  cronce why {later(5).key}",
        f"  cronce why {SLOT.key}",
    ]


def test_a_job_that_is_paused_says_so_instead_of_its_next_slot(node: HandNode, store: Wire) -> None:
    declare(node, "0 9 * * *", floor=START)
    node.do(node.ledger.jobs.pause("billing", "ada", "moving"))
    assert (
        about(asked(store, None))
        == """\
billing runs at 09:00 every day (0 9 * * *).
It is paused by ada at 2026-03-29T12:00:00Z (moving): its slots do not run until it is resumed."""
    )


def test_a_job_that_is_called_with_two_schedules_says_so(node: HandNode, store: Wire) -> None:
    declare(node, "0 9 * * *", "0 10 * * *")
    assert (
        about(asked(store, None))
        == """\
billing is called with 2 schedules: 0 10 * * *; 0 9 * * *.
Its next slot is 2026-03-30T09:00:00Z (in 21h)."""
    )


def test_a_job_without_a_schedule_or_a_slot_says_so(node: HandNode, store: Wire) -> None:
    node.do(node.ledger.jobs.edit("billing", lambda _job, now: Job(now)))
    assert (
        about(asked(store, None))
        == """\
billing has no schedule on record: what calls it decides when it runs.
It has no runs on record."""
    )


def test_what_a_newer_cronce_wrote_is_said_to_be_unreadable(node: HandNode, store: Wire) -> None:
    granted(node)
    newer = '{"v":99}'
    store._cells[SLOT.cell] = store._cells[SLOT.cell]._replace(value=newer)
    assert told(store) == (
        "billing@2026-03-29T12:00:00Z cannot be read: the cell 'run/billing/2026-03-29T12:00:00Z' has format 99, this"
        " cronce reads up to 6: upgrade cronce."
    )
    store._cells["job/billing"] = store._cells["job/billing"]._replace(value=newer)
    assert about(asked(store, None)).startswith("billing cannot be read: the cell 'job/billing' has format 99")
    assert told(store, later(-5)).startswith("billing@2026-03-29T11:55:00Z has no record, and the job cannot be read")


def test_nobody_is_told_of_a_job_that_is_not_there(store: Wire, node: HandNode) -> None:
    assert node.do(why("billing", None, store.traits)) is None

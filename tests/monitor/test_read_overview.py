"""The whole at a glance, and a stretch of time: all that is shown and no more, in few requests."""

from datetime import timedelta

import pytest

from cronce.errors import BadInput
from cronce.model import (
    ABSENT,
    SWITCH,
    Instant,
    Mark,
    Slot,
    Write,
    holder_cell,
    refusals_cell,
)
from cronce.monitor import read_jobs, read_lists, read_overview
from cronce.monitor.read_lists import LIST_COUNTED
from cronce.monitor.read_overview import DOUBTS_COUNTED
from cronce.protocol.notices import Alert, Refusals, Refused, encode_notice
from cronce.protocol.record import Act, Outcome, Record, State, encode, encode_act
from cronce.runtime import run_lists
from cronce.runtime.flow import Flow
from cronce.runtime.queries import sparing
from tests.monitor.reader import HOUR, MINUTE, NOW, Reader


def test_the_overview_tells_what_is_wrong_who_is_there_and_what_runs(fleet: Reader) -> None:
    seen = fleet(read_overview.overview(recent=5))
    assert (seen.open.number, seen.open.more, len(seen.open.runs)) == (12, False, 12)
    assert (seen.attention.number, seen.attention.more, len(seen.attention.runs)) == (8, False, 8)
    assert (seen.in_doubt.number, seen.in_doubt.more) == (2, False)
    assert [line.holder.holder.partition(":")[0] for line in seen.holders] == ["batch-1", "web-1", "web-2"]
    assert [one.life(seen.now) for one in seen.holders] == ["alive"] * 3
    assert [run.cell.at for run in seen.newest] == [NOW - timedelta(seconds=number) for number in range(5)]
    assert seen.halted is None
    assert fleet.calls == 4


def test_counts_end_somewhere(read: Reader) -> None:
    for number in range(LIST_COUNTED + 2):
        read.run(Slot("billing", NOW - number * HOUR, request=f"a{number}"), Mark.OPEN)
        read.run(Slot("report", NOW - number * HOUR), Mark.ATTENTION, Outcome.LOST)
    seen = read(read_overview.overview())
    assert (seen.open.number, seen.open.more) == (LIST_COUNTED, True)
    assert (seen.attention.number, seen.attention.more) == (DOUBTS_COUNTED, True)
    assert (len(seen.open.runs), len(seen.attention.runs), len(seen.newest)) == (200, 50, 30)


def test_alerts_that_stand_are_told_apart_from_those_that_are_over(read: Reader) -> None:
    stands = Alert("late", "billing", "warning", "it is late", NOW)
    read.put("alert/late/billing", encode_notice(stands), Mark.OPEN)
    read.put("alert/late/report", encode_notice(stands._replace(subject="report", cleared=NOW)), Mark.FREE)
    assert [one.subject for one in read(read_lists.alerts()).alerts] == ["billing"]
    assert [one.subject for one in read(read_lists.alerts(open=False)).alerts] == ["report"]
    assert [one.subject for one in read(read_overview.overview()).alerts.alerts] == ["billing"]


def test_who_stopped_everything_is_told(read: Reader) -> None:
    read.put(SWITCH, encode_act(Act("ann", NOW, "moving house")), Mark.OPEN)
    stopped = read(read_overview.overview()).halted
    assert stopped is not None
    assert stopped.by == "ann"


def test_a_failed_run_that_an_alert_names_stays_in_the_picture(read: Reader) -> None:
    """Only lost ones did: a failed one was gone past 250 runs."""
    failed = Slot("billing", NOW - 50 * MINUTE)
    read.run(failed, outcome=Outcome.FAILED)
    for number in range(20):
        read.run(Slot("probe", NOW - timedelta(seconds=number)))
    alert = Alert("failed", "billing", "warning", "it failed", NOW, slots=(failed.key, "no slot"))
    read.put("alert/failed/billing", encode_notice(alert), Mark.OPEN)
    seen = read(read_overview.overview(1, 10))
    assert read.calls == 4
    drawn = read(read_overview.stretch_of(seen, NOW - HOUR, NOW + MINUTE, 10))
    assert (len(drawn.runs), drawn.runs[-1].slot) == (11, failed)
    earlier = read(read_overview.stretch_of(seen, NOW - 30 * MINUTE, NOW + MINUTE, 10))
    assert failed not in {run.slot for run in earlier.runs}


# --- a stretch of time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", [None, "billing"])
def test_a_stretch_has_its_start_and_not_its_end(job: str | None, read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(6)]
    for place, slot in enumerate(slots):
        read.run(slot, [Mark.CLOSED, Mark.ATTENTION][place % 2])
    found = read(read_overview.stretch(slots[4].at, slots[1].at, job))
    assert [run.slot for run in found.runs] == slots[2:5]
    assert (found.whole_from, found.more_open, found.ghosts) == (found.start, False, ())
    later = slots[1].at + timedelta(microseconds=1)
    assert [run.slot for run in read(read_overview.stretch(slots[4].at, later, job)).runs] == slots[1:5]


@pytest.mark.parametrize("job", [None, "billing"])
def test_of_too_many_runs_it_is_told_from_when_on_they_are_all_there(job: str | None, read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(40)]
    for slot in slots:
        read.run(slot)
    found = read(read_overview.stretch(slots[-1].at, NOW, job, limit=10))
    assert [run.slot for run in found.runs] == slots[:10]
    assert found.whole_from == slots[9].at + timedelta(microseconds=1)
    exactly = read(read_overview.stretch(slots[9].at, NOW, job, limit=10))
    assert ([run.slot for run in exactly.runs], exactly.whole_from) == (slots[:10], exactly.start)


@pytest.mark.parametrize("job", [None, "billing"])
def test_what_is_open_from_before_is_in_it_once(job: str | None, read: Reader) -> None:
    old, new = Slot("billing", NOW - 9 * HOUR), Slot("billing", NOW - HOUR)
    read.run(old, Mark.OPEN)
    read.run(new, Mark.OPEN)
    found = read(read_overview.stretch(NOW - 2 * HOUR, NOW, job))
    assert [run.slot for run in found.runs] == [new, old]


def test_what_was_refused_in_that_time_is_told_of_all_jobs_that_are_shown(read: Reader) -> None:
    def refuse(job: str, host: str, *at: Instant) -> None:
        recent = tuple(Refused(f"{job}@…", one, f"{host}:1:a: held") for one in at)
        read.put(refusals_cell(job, host), encode_notice(Refusals(9, recent)))

    refuse("billing", "web-1", NOW - 2 * HOUR, NOW - HOUR / 2)
    refuse("report", "web-2", NOW - HOUR / 3, NOW)
    read.run(Slot("report", NOW - HOUR / 2))
    found = read(read_overview.stretch(NOW - HOUR, NOW))
    assert [(one.job, one.host) for one in found.ghosts] == [("billing", "web-1"), ("report", "web-2")]
    assert not found.more_ghosts
    for number in range(200):
        refuse(f"a-{number}", "web-1", NOW - HOUR / 2)
    read.put(holder_cell("web-2:1:a"), "", Mark.OPEN, ttl=HOUR)
    found = read(read_overview.stretch(NOW - HOUR, NOW))
    assert [(one.job, one.host) for one in found.ghosts] == [("report", "web-2")]
    assert read.calls == 2 + 1 + 1 + 2, "who is known, and what those were refused"
    for number in range(30):
        read.run(Slot(f"a-{number}", NOW - HOUR / 3))
    found = read(read_overview.stretch(NOW - HOUR, NOW))
    assert (len(found.ghosts), found.more_ghosts) == (31, False)
    assert read.calls == 2 + 1 + 1 + 2, "a request for each job once made a timeline slow"


@pytest.mark.parametrize(("hours", "told"), [(1, (False, 30)), (30, (True, 40 + 12))])
def test_an_overview_that_was_read_to_be_drawn_needs_no_other_runs(
    hours: int, told: tuple[bool, int], fleet: Reader
) -> None:
    start, end = NOW - hours * HOUR, NOW + HOUR / 20
    seen = fleet(read_overview.overview(5, drawn=40))
    drawn = fleet(read_overview.stretch_of(seen, start, end, 40))
    assert fleet.calls == 0
    whole = fleet(read_overview.stretch(start, end, None, 40))
    assert drawn == whole
    assert (drawn.whole_from > start, len(drawn.runs)) == told


@pytest.mark.parametrize(("every", "hours", "calls"), [(1, 2, 0), (1, 4, 1), (1, 6, 1), (30, 2, 0), (30, 300, 1)])
@pytest.mark.parametrize("limit", [40, 250])
def test_the_view_of_a_job_is_drawn_without_reading_its_runs_again(
    every: int, hours: int, calls: int, limit: int, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lists, "OF_A_JOB", 200)
    read.job("billing")
    slots = [Slot("billing", NOW + (5 - number * every) * timedelta(minutes=1)) for number in range(300)]
    for place, slot in enumerate(slots):
        read.run(slot, Mark.OPEN if place in (0, 7, 260) else Mark.CLOSED)
    refused = Refusals(7, (Refused(slots[1].key, NOW - HOUR, "web-2:1:a: held"),))
    read.put(refusals_cell("billing", "web-2"), encode_notice(refused))
    start, end = NOW - hours * HOUR, NOW + HOUR / 20

    def seen_and_drawn() -> Flow[read_overview.TimeSpan]:
        view = yield from read_jobs.job_view("billing")
        assert view is not None
        return (yield from read_overview.stretch(start, end, "billing", limit, view.present))

    assert read(read_jobs.job_view("billing"))
    alone = read.calls
    drawn = read(sparing(seen_and_drawn()))
    assert read.calls - alone == (calls if limit == 250 else 0)
    assert drawn == read(read_overview.stretch(start, end, "billing", limit))


@pytest.mark.parametrize("number", [120, 300])
def test_what_is_open_or_lost_of_a_job_is_told_however_many_runs_came_since(
    number: int, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lists, "OF_A_JOB", 200)
    read.job("billing")
    slots = [Slot("billing", NOW - place * HOUR) for place in range(number)]
    for slot in slots[:-2]:
        read.run(slot)
    read.run(slots[-2], Mark.ATTENTION, Outcome.LOST)
    read.run(slots[-1], Mark.OPEN)
    view = read(read_jobs.job_view("billing"))
    assert view is not None
    assert read.calls == (4 if number == 120 else 4 + 3), "those by hand, what is open, what is lost"
    assert [run.slot for run in (*view.attention.runs, *view.open.runs)] == slots[-2:]


@pytest.mark.parametrize(("steps", "more"), [(DOUBTS_COUNTED - 2, 0), (DOUBTS_COUNTED + 3, 1), (3 * DOUBTS_COUNTED, 1)])
def test_runs_and_steps_that_wait_for_a_person_are_read_together_unless_there_are_many(
    steps: int, more: int, read: Reader
) -> None:
    unknown = encode(Record(State.CLOSED, 1, "n", "web-1:1:a", outcome=Outcome.UNKNOWN, finished=NOW))
    for number in range(DOUBTS_COUNTED + 1):
        read.run(Slot("report", NOW - number * HOUR), Mark.ATTENTION, Outcome.LOST)
    for number in range(steps):
        read.put(f"effect/report/2026-03-29T12:00:00Z/{number}", unknown, Mark.ATTENTION, NOW)
    seen = read(read_overview.overview())
    assert (seen.attention.number, seen.attention.more) == (DOUBTS_COUNTED, True)
    assert (seen.in_doubt.number, seen.in_doubt.more) == (min(steps, DOUBTS_COUNTED), steps > DOUBTS_COUNTED)
    assert read.calls == 4 + more


@pytest.mark.parametrize(
    ("keys", "refused", "calls", "drawn_of"),
    [(2, 3, 4, 3), (150, 60, 4, 60), (190, 0, 4, 0), (2, 250, 4, 200), (450, 3, 4 + 3, 3)],
)
def test_keys_in_doubt_and_what_was_refused_are_read_together_unless_there_are_many_keys(
    keys: int, refused: int, calls: int, drawn_of: int, read: Reader
) -> None:
    """Also of what is done much may be on record."""
    done = Record(State.CLOSED, 1, "n", "web-1:1:a", outcome=Outcome.SUCCEEDED, finished=NOW)
    read.put("once/mail/0", encode(done._replace(outcome=Outcome.UNKNOWN)), Mark.ATTENTION, ttl=HOUR)
    begun = Record(State.RUNNING, 1, "n", "web-1:1:a", started=NOW)
    read.put("once/mail/zz", encode(begun), Mark.OPEN, grant=True, ttl=timedelta(0))
    for number in range(2, keys):
        read.put(f"once/mail/{number}", encode(done), Mark.CLOSED, ttl=HOUR)
    for number in range(refused):
        recent = (Refused("report@…", NOW - HOUR / 2, f"web-{number}:1:a: held"),)
        read.put(refusals_cell("report", f"web-{number}"), encode_notice(Refusals(9, recent)))
    read.run(Slot("report", NOW - HOUR / 2))
    seen = read(read_overview.overview(5, drawn=40))
    assert (seen.in_doubt.number, seen.in_doubt.more) == (2, False)
    assert read.calls == calls
    drawn = read(read_overview.stretch_of(seen, NOW - HOUR, NOW, 40))
    assert (len(drawn.ghosts), read.calls) == (drawn_of, int(refused > drawn_of)), "of the hosts that were seen"
    whole = read(read_overview.stretch(NOW - HOUR, NOW, None, 40))
    assert len(whole.ghosts) == min(refused, 200)
    assert drawn._replace(ghosts=()) == whole._replace(ghosts=())


def test_what_an_overview_has_not_read_is_not_told_as_whole(read: Reader) -> None:
    slots = [Slot("billing", NOW.replace(minute=0) - number * HOUR) for number in range(12)]
    for place, slot in enumerate(slots):
        read.run(slot, [Mark.CLOSED, Mark.ATTENTION][place % 4 == 3])
    seen = read(read_overview.overview(drawn=3))
    found = read(read_overview.stretch_of(seen, slots[-1].at, NOW, 10))
    assert [run.slot for run in found.runs] == [*slots[:4], slots[7], slots[11]]
    assert found.whole_from == slots[2].at + timedelta(microseconds=1)


def test_a_stretch_needs_a_job_that_can_be_one(read: Reader) -> None:
    with pytest.raises(BadInput):
        read(read_overview.stretch(NOW - HOUR, NOW, "a/b"))


def test_an_incident_stays_in_the_picture_however_many_runs_came_after() -> None:
    """Past 250 runs it was gone."""
    reader = Reader()
    lost = Slot("billing", NOW - 50 * MINUTE)
    slots = [Slot("probe", NOW - timedelta(seconds=number)) for number in range(300)]
    records = {slot: Record(State.CLOSED, 1, started=slot.at, finished=slot.at) for slot in (*slots, lost)}
    writes = [
        Write(
            slot.cell,
            ABSENT,
            encode(record._replace(outcome=Outcome.LOST if slot == lost else Outcome.SUCCEEDED)),
            Mark.ATTENTION if slot == lost else Mark.CLOSED,
            slot.at,
            grant=True,
        )
        for slot, record in records.items()
    ]
    reader.store.swap(writes, reader.store.load([]).epoch.seen)
    seen = reader(read_overview.overview(1, 250))
    drawn = reader(read_overview.stretch_of(seen, NOW - HOUR, NOW + MINUTE, 250))
    assert (len(drawn.runs), drawn.runs[-1].slot) == (251, lost)
    whole = reader(read_overview.stretch(NOW - HOUR, NOW + MINUTE, limit=100))
    assert (len(whole.runs), whole.runs[-1].slot) == (101, lost)

"""What is wrong with the store, leaders and effects, with schedulers that are not ours and calls that were observed."""

from datetime import datetime, timedelta

import pytest

from cronce.errors import InDoubt
from cronce.model import MONITOR, Fence, Mark, Slot, beat_cell, effect_cells, leader_cell, observed_cell, once_cell
from cronce.monitor.alerts import ALERTS_PER_KIND, AlertKind, gathered, worst_first
from cronce.monitor.survey import named
from cronce.monitor.watch import beating, doubled, flapping, judge
from cronce.protocol.commands import Finish
from cronce.protocol.notices import Alert, Beats, Doubled, LastBeat, Observed, decode_beats, encode_notice
from cronce.protocol.record import LAPSED, RELEASED, Outcome, Past
from cronce.runtime.effects.review import resolve_effect
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Begin, Grant
from cronce.runtime.unfinished import tell_doubts
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import DURABLE, FORGETFUL, START, HandNode

MICROSECOND = timedelta(microseconds=1)
WEB = "web-1:1:a"
JOB = every("1h")


@pytest.fixture
def town() -> Town:
    town = Town()
    town.beat(WEB, JOB)
    return town


# --- effects ---


def begun(node: HandNode, begin: Begin) -> Grant:
    _, (begun,) = node.do(node.ledger.exchange_effects((), [begin]))
    assert isinstance(begun.answer, Grant)
    return begun.answer


def test_effects_in_doubt_are_told_of_until_a_person_has_said_something(town: Town) -> None:
    node = town.node()
    run = town.run(every("1h", "mail"), START, None, outside=True, digest="")
    for key in ("charge:7", "charge:8"):
        step = begun(node, Begin(f"{effect_cells(Slot('mail', START).key)}{key}", node.ledger.nonce(), under=run))
        node.do(node.ledger.exchange_effects([(step, Finish(step.fence, Outcome.UNKNOWN, "timed out"))]))
        town.pass_time(SECOND)
    finding = town.the(AlertKind.IN_DOUBT)
    assert (finding.subject, finding.severity, finding.since) == ("mail", "critical", START)
    assert finding.text == (
        "mail@2026-03-29T12:00:00Z/charge:8 was begun, and cronce does not know whether it happened; 2 effects of"
        " mail in all."
    )
    assert "`cronce resolve mail@2026-03-29T12:00:00Z/charge:8 done`" in finding.remedy
    for key in ("charge:7", "charge:8"):
        node.do(resolve_effect(town.hand, f"mail@2026-03-29T12:00:00Z/{key}", "done", ""))
    assert "in-doubt/mail" not in town.kinds()


def test_a_run_that_an_effect_stopped_names_it_and_is_not_critical_once_that_is_resolved(town: Town) -> None:
    """It named neither the effect nor the command for it, and stayed critical when the effect was resolved."""
    node, name = town.node(), "forward/order:2"
    run = town.run(every("1h", "mail"), START, None, outside=True, digest="")
    step = begun(node, Begin(once_cell("forward", "order:2"), node.ledger.nonce(), under=run, keep=HOUR))
    node.do(node.ledger.exchange_effects([(step, Finish(step.fence, Outcome.UNKNOWN, "timed out"))]))
    node.do(node.ledger.finish(run, Outcome.UNKNOWN, f"nobody knows whether {name} happened: timed out"))
    finding = town.the(AlertKind.UNKNOWN)
    assert (finding.severity, f"cronce does not know whether {name} happened." in finding.text) == ("critical", True)
    assert f"`cronce resolve {name} done`" in finding.remedy
    node.do(resolve_effect(town.hand, name, "done", ""))
    finding = town.the(AlertKind.UNKNOWN)
    assert (finding.severity, f"was stopped by {name}, which has been resolved." in finding.text) == ("warning", True)
    assert "`cronce rerun mail@2026-03-29T12:00:00Z` continues it" in finding.remedy


def test_a_run_that_two_effects_stopped_is_critical_until_both_are_resolved(town: Town) -> None:
    """It knew the first alone; with the words *and 1 more* it stayed critical for ever."""
    node, slot, names = town.node(), "mail@2026-03-29T12:00:00Z", ["forward/order:2", "forward/order:3"]
    run = town.run(every("1h", "mail"), START, None, outside=True, digest="")
    for order in ("order:2", "order:3"):
        step = begun(node, Begin(once_cell("forward", order), node.ledger.nonce(), under=run, keep=HOUR))
        node.do(node.ledger.exchange_effects([(step, Finish(step.fence, Outcome.UNKNOWN, "timed out"))]))
    reason = tell_doubts([InDoubt(name, "timed out") for name in names])
    node.do(node.ledger.finish(run, Outcome.UNKNOWN, reason))
    for name in names:
        finding = town.the(AlertKind.UNKNOWN)
        assert (finding.severity, f"cronce does not know whether {name} happened." in finding.text) == (
            "critical",
            True,
        )
        assert f"`cronce resolve {name} done`, or retry" in finding.remedy
        assert (f"(`cronce status effects {slot}` lists its other effects)" in finding.remedy) == (name == names[0])
        node.do(resolve_effect(town.hand, name, "done", ""))
    assert town.the(AlertKind.UNKNOWN).severity == "warning"


def test_a_key_whose_lease_passed_is_in_doubt(town: Town) -> None:
    node = town.node()
    key = begun(node, Begin(once_cell("order-mail", "it's 42"), node.ledger.nonce(), keep=HOUR))
    town.pass_time(30 * SECOND - MICROSECOND)
    town.beat(WEB)
    assert town.kinds() == []
    town.pass_time(MICROSECOND)
    finding = town.the(AlertKind.IN_DOUBT)
    assert finding.subject == "order-mail"
    assert """`cronce resolve 'order-mail/it'"'"'s 42' done`""" in finding.remedy
    node.do(node.ledger.exchange_effects([(key, Finish(key.fence, Outcome.SUCCEEDED))]))
    assert town.kinds() == []


# --- the store ---


def test_a_store_that_forgot_is_told_of_for_an_hour() -> None:
    town = Town(FORGETFUL)
    assert town.kinds() == []  # it was made on purpose
    node = town.node()
    node.do(node.ledger.acquire("lock/a"))
    lost = town.store
    town.pass_time(MINUTE)
    town.store = type(lost)(town.clock, FORGETFUL, on_purpose=False)
    finding = town.the(AlertKind.AMNESIA)
    assert finding.text == "the store was found empty at 2026-03-29T12:01:00Z: its earlier records are lost."
    assert (finding.subject, finding.severity) == ("", "critical")
    town.pass_time(HOUR - MICROSECOND)
    assert town.kinds() == ["amnesia/"]
    assert town.fresh() == ["amnesia/"]
    town.pass_time(MICROSECOND)
    assert town.kinds() == town.fresh() == []


def test_a_store_that_was_found_empty_and_that_nobody_knew_before_may_be_new() -> None:
    town = Town(FORGETFUL)
    town.store = type(town.store)(town.clock, FORGETFUL, on_purpose=False)
    town.beat(WEB, JOB)
    finding = town.the(AlertKind.AMNESIA)
    assert (finding.severity, finding.text) == ("info", "the store was found empty at 2026-03-29T12:00:00Z.")
    assert finding.remedy.startswith("If it is new, later slots run.")
    town.beat("web-2:1:a", JOB, since=START - SECOND)  # it was there before the store was
    finding = town.the(AlertKind.AMNESIA)
    assert finding.severity == "critical"
    assert finding.remedy.startswith("Find out why. Slots until then do not run by themselves;")


def test_a_store_that_was_set_back_says_what_is_gone(town: Town) -> None:
    epoch = town.store.load([]).epoch
    town.pass_time(MINUTE)
    town.beat(WEB)
    assert town.kinds() == []
    town.store.swap([], (epoch.birth, epoch.tally + 1000))  # somebody who saw more than the store knows
    text = town.the(AlertKind.AMNESIA).text
    assert text == (
        "the store was set back: records written between 2026-03-29T12:01:00Z and 2026-03-29T12:01:00Z are lost."
    )


def test_another_store_in_the_place_of_the_one_before_is_told_of(town: Town) -> None:
    assert town.kinds() == []
    town.pass_time(MINUTE)
    town.store = type(town.store)(town.clock)
    assert town.the(AlertKind.AMNESIA).text.startswith(
        "this is another store than before, created at 2026-03-29T12:01:00Z"
    )
    assert town.fresh() == []  # who comes later cannot know
    town.pass_time(HOUR)
    assert town.kinds() == []


def test_what_was_known_of_a_store_that_forgot_is_forgotten(town: Town) -> None:
    town.pass_time(HOUR)
    town.run(JOB, START + HOUR, Outcome.FAILED)
    assert "failed/billing" in town.kinds()
    town.store = type(town.store)(town.clock)
    assert town.kinds() == ["amnesia/"]


def test_what_may_have_run_before_the_store_forgot_is_not_missed() -> None:
    town = Town()
    town.beat(WEB, every("10m"))
    town.pass_time(12 * MINUTE)
    town.beat(WEB)
    assert town.fresh() == ["missed/billing"]
    epoch = town.store.load([]).epoch
    town.store.swap([], (epoch.birth, epoch.tally + 1000))
    assert town.fresh() == ["amnesia/"]


def test_what_is_closed_since_the_store_forgot_by_a_clock_that_may_step_is_not_missed() -> None:
    """The slot is half a minute younger than the store's new life, and its clock is only exact to a minute."""
    town = Town(DURABLE._replace(step=MINUTE))
    town.beat(WEB, every("10m"))
    town.pass_time(9 * MINUTE + MINUTE / 2)
    epoch = town.store.load([]).epoch
    town.store.swap([], (epoch.birth, epoch.tally + 1000))
    town.pass_time(3 * MINUTE)
    assert town.fresh() == ["amnesia/", "gone/web-1:1:a", "silent/"]


# --- leaders ---


def test_a_leadership_that_changes_hands_again_and_again_flaps_for_ten_minutes(town: Town) -> None:
    node = town.node()
    ended = [Past(Fence(1, number), WEB, START, LAPSED, START + number * SECOND) for number in (1, 2, 3)]
    resigned = [past._replace(end=RELEASED) for past in ended]
    grant = node.do(node.ledger.acquire(leader_cell("mailers")))
    assert isinstance(grant, Grant)
    town.pass_time(3 * SECOND)
    seen = town.survey()
    (held,) = seen.leaders
    assert held.record is not None

    def found(*past: Past, name: str = "mailers", now: datetime = seen.now) -> list[Alert]:
        leader = held._replace(name=name, record=held.record and held.record._replace(past=past))
        return list(flapping(seen._replace(leaders=[leader], now=now), town.settings))

    (finding,) = found(*ended)
    assert finding.text == f"mailers lost its leader 3 times within 10m: {WEB}."
    assert finding.since == START + SECOND
    end = START + SECOND + 10 * MINUTE
    assert [len(found(*ended, now=now)) for now in (end - MICROSECOND, end)] == [1, 0]
    assert found(*ended[:2], *resigned) == []  # whoever resigns ends as it should
    assert found(*ended, name=MONITOR) == []


# --- schedulers that are not ours ---


def beats(*seconds: float, every: timedelta = MINUTE) -> Beats:
    recent = tuple(
        LastBeat(START + timedelta(seconds=at), f"host-{number % 2}:{number}") for number, at in enumerate(seconds)
    )
    return Beats(every, recent, len(recent))


def test_a_beat_is_overdue_after_two_intervals() -> None:
    last = START + 60 * SECOND
    assert list(beating("cron", beats(0, 60), last + 2 * MINUTE)) == []
    (finding,) = beating("cron", beats(0, 60), last + 2 * MINUTE + MICROSECOND)
    assert finding.kind is AlertKind.BEAT_SILENT
    assert finding.text == "cron sent its last heartbeat 2m ago, on host-1; it should send one every 1m."
    assert finding.since == last + 2 * MINUTE


@pytest.mark.parametrize("restart", [0, 0.1, 5, 10, 19.9, 20, 35, 60, 61, 79.9])
def test_a_scheduler_that_restarts_at_any_moment_is_one(restart: float) -> None:
    """Also if it beats a moment early or late."""
    for early in (-1.0, 0.0, 1.0):
        first = [at + early * (number % 2) for number, at in enumerate((0.0, 20.0, 40.0, 60.0)) if at <= restart]
        then = [restart + 0.1 + at - early * (number % 2) for number, at in enumerate((0.0, 20.0, 40.0, 60.0, 80.0))]
        told = beats(*first, *then, every=20 * SECOND)
        now = START + timedelta(seconds=then[-1])
        assert list(beating("cron", told, now)) == []


@pytest.mark.parametrize("phase", [0, 0.001, 1, 10, 19.9])
def test_two_schedulers_are_two_after_two_intervals_whatever_their_phase(phase: float) -> None:
    signs = sorted((*range(0, 200, 20), *(at + phase for at in range(0, 200, 20))))
    doubled = [
        number
        for number in range(1, 11)
        if list(
            beating("cron", beats(*signs[:number], every=20 * SECOND), START + timedelta(seconds=signs[number - 1]))
        )
    ]
    assert doubled == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("seconds", "twice"),
    [
        ((0, 30, 60, 90, 120), True),
        ((0, 10, 60.1, 70.1, 120.2), True),  # two that are slow
        ((0, 30, 90, 100, 150), True),
        ((0, 30, 90, 100, 150.000001), False),
        ((120, 0, 30, 60, 90), True),  # whoever wrote first
        ((0, 30, 60, 90), False),
        ((0, 60, 120, 180, 240, 300), False),
    ],
)
def test_five_beats_within_two_and_a_half_intervals_are_of_two_schedulers(
    seconds: tuple[float, ...], twice: bool
) -> None:
    now = START + timedelta(seconds=max(seconds))
    assert [one.kind for one in beating("cron", beats(*seconds), now)] == [AlertKind.BEAT_DOUBLE] * twice


@pytest.mark.parametrize(("seconds", "told"), [((0, 20, 40), True), ((0, 1, 54), True), ((0, 1, 54.01), False)])
def test_three_beats_within_an_interval_are_a_warning(seconds: tuple[float, ...], told: bool) -> None:
    now = START + timedelta(seconds=max(seconds))
    found = [(one.kind, one.severity) for one in beating("cron", beats(*seconds), now)]
    assert found == [(AlertKind.BEAT_DOUBLE, "warning")] * told
    assert list(beating("cron", beats(*seconds, 130, 190, 250, 310, 370), START + 400 * SECOND)) == []


def test_beats_that_came_too_often_are_over_after_five_intervals() -> None:
    told = beats(0, 0.5, 60, 60.5, 120, 180, 240, 300, 360)
    end = START + 120 * SECOND + 5 * MINUTE
    (finding,) = beating("cron", told, end - MICROSECOND)
    assert finding.text == (
        "cron should send one heartbeat every 1m, and sent 5 within 2m (3 times on host-0, twice on host-1): more than"
        " one scheduler uses this name."
    )
    assert list(beating("cron", told, end)) == []


def test_two_schedulers_that_are_silent_are_silent() -> None:
    (finding,) = beating("cron", beats(0, 0.5, 60, 60.5), START + 4 * MINUTE)
    assert finding.kind is AlertKind.BEAT_SILENT


def test_beats_stand_in_cells(town: Town) -> None:
    town.put(beat_cell("cron"), encode_notice(beats(0)))
    assert town.kinds() == []
    town.pass_time(2 * MINUTE + SECOND)
    town.beat(WEB)
    assert town.kinds() == ["beat-silent/cron"]
    town.put(beat_cell("cron"), encode_notice(beats(0, 121)))
    assert town.kinds() == []
    town.put(beat_cell("cron"), encode_notice(beats(0, 118, 119, 120, 120.5, 121)))
    assert town.kinds() == ["beat-double/cron"]


def test_all_pages_of_them_are_read_up_to_a_bound(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.monitor.survey.SLICE", 2)
    for number in range(5):
        town.put(beat_cell(f"cron-{number}"), encode_notice(beats(0)))
    assert sorted(drive(named("beat/", decode_beats, 6), town.store, town.clock)) == [
        f"cron-{number}" for number in range(5)
    ]
    for number in range(5, 8):
        town.put(beat_cell(f"cron-{number}"), encode_notice(beats(0)))
    assert sorted(drive(named("beat/", decode_beats, 6), town.store, town.clock)) == [
        f"cron-{number}" for number in range(6)
    ]


# --- what was observed ---


def observed(*seconds: float, total: int = 40) -> Observed:
    calls = (LastBeat(START, "web-1"), LastBeat(START, "web-2"))
    recent = tuple(Doubled("mail@12:00", START + timedelta(seconds=at), "web-2", "web-1 runs it") for at in seconds)
    return Observed(None, calls, total, len(seconds), recent)


def test_calls_that_ran_twice_are_told_of_for_an_hour() -> None:
    told = observed(0, 10)
    (finding,) = doubled("mail", told, START + 10 * SECOND + HOUR - MICROSECOND)
    assert finding.text == (
        "mail was called twice for mail@12:00, and both calls ran (web-1 runs it). Of 40 calls until now, 2 were"
        " duplicates; the last came from web-1 and web-2."
    )
    (one,) = doubled("mail", observed(0)._replace(calls=(LastBeat(START, "web-1"), LastBeat(START, "web-1"))), START)
    assert one.text.endswith("Of 40 calls until now, 1 was a duplicate; the last came from web-1.")
    assert list(doubled("mail", told, START + 10 * SECOND + HOUR)) == []
    assert list(doubled("mail", observed(), START)) == []


def test_what_was_observed_stands_in_cells(town: Town) -> None:
    town.put(observed_cell("mail"), encode_notice(observed()))
    assert town.kinds() == []
    town.put(observed_cell("mail"), encode_notice(observed(0)))
    assert town.kinds() == ["doubled/mail"]


# --- all of it ---


def test_of_very_many_some_stand_for_themselves_and_the_rest_is_one(town: Town) -> None:
    for number in range(ALERTS_PER_KIND + 2):
        town.put(beat_cell(f"cron-{number:03}"), encode_notice(beats(0)))
    town.pass_time(2 * MINUTE + SECOND)
    town.beat(WEB)
    found = gathered(town.look())
    assert [one.subject for one in found] == ["*", *(f"cron-{number:03}" for number in range(ALERTS_PER_KIND))]
    assert found[0].text.startswith("beat-silent: and 2 more, such as cron-010: cron-010 sent its last heartbeat ")


def test_the_worst_comes_first_and_a_finding_stands_since_it_came(town: Town) -> None:
    town.pass_time(30 * SECOND)
    first = {one.id: one.since for one in town.look()}
    assert [one.severity for one in town.look()] == ["critical", "warning"]
    town.pass_time(10 * SECOND)
    assert {one.id: one.since for one in town.look()} == first
    town.beat(WEB)
    assert town.kinds() == []
    assert town.memory.since == {}


def test_of_what_is_equally_bad_the_kinds_have_an_order() -> None:
    failed = Alert(AlertKind.FAILED, "", "critical", "", START)
    found = [
        failed,
        failed._replace(kind=AlertKind.AMNESIA, severity="info"),
        failed._replace(kind=AlertKind.GONE, severity="warning"),
        failed._replace(kind=AlertKind.SILENT),
    ]
    assert [one.kind for one in gathered(found)] == [
        AlertKind.SILENT,
        AlertKind.FAILED,
        AlertKind.GONE,
        AlertKind.AMNESIA,
    ]
    unheard_of = failed._replace(kind="unheard-of")
    alerts = sorted([unheard_of, *found], key=worst_first)
    assert [one.kind for one in alerts] == ["silent", "failed", "unheard-of", "gone", "amnesia"]


def test_a_judgement_changes_nothing_that_it_was_given(town: Town) -> None:
    town.pass_time(2 * HOUR)
    seen, memory = town.survey(), town.memory
    first, second = judge(seen, memory, town.settings), judge(seen, memory, town.settings)
    assert first == second
    assert memory.since == {}
    assert all(isinstance(one, Alert) for one in first[0])


def test_cells_that_cannot_be_read_are_left_out(town: Town) -> None:
    town.run(every("1h", "mail"), START, outside=True, digest="")
    for key in (
        "job/odd",
        "stored/odd",
        "holder/odd",
        "bundle/odd/000",
        "run/odd/2026-03-29T12:00:00Z",
        "run/nobody's",
    ):
        town.put(key, '{"v":999}', Mark.OPEN, ttl=SECOND)
    for key in ("run/odd/2026-03-29T11:00:00Z", "effect/odd/x", "once/odd/x"):
        town.put(key, "{", Mark.ATTENTION, ttl=SECOND)
    for key in ("leader/odd", "beat/odd", "observed/odd", "refusals/odd/web-1", "switch-odd"):
        town.put(key, "[]")
    assert town.kinds() == []
    town.pass_time(5 * SECOND)
    assert town.kinds() == []

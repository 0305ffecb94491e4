"""Alerts are raised once, told once, cleared when it is over, and do not flap: whoever looks, and however often."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.model import Cell, Mark, Write
from cronce.monitor.alerts import (
    CLEARED_KEPT,
    GIVEN_UP,
    MAX_NOTICE_PAUSE,
    QUIET_BEFORE_CLEARED,
    REWORDED,
    AlertKind,
    Alerts,
    NoticeClaim,
    due,
    key_of,
    pause,
)
from cronce.protocol.notices import Alert, decode_alert
from tests.runtime.shelf import START, HandClock, HandNode, Wire

HOOK, LOG = "hook", "log"
CLAIM = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
LOST = Alert(AlertKind.LOST, "billing", "critical", "a run of billing is lost.", START, remedy="Look at it.")
LATE = Alert(AlertKind.LATE, "billing", "warning", "billing is late.", START)


class Office:
    """A store, and watchers at it, each a process of its own."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.store = Wire(self.clock)
        self.nodes = [HandNode(self.store, f"web-{number}:1:a") for number in range(3)]
        self.watchers = [Alerts(node.ledger.client) for node in self.nodes]

    def look(
        self,
        *findings: Alert,
        watcher: int = 0,
        anew: bool = False,
        over: Callable[[Alert], bool] = lambda _alert: True,
    ) -> None:
        """An evaluation, and five seconds."""
        self.nodes[watcher].do(self.watchers[watcher].settle(findings, over, anew=anew))
        self.clock.turn(5.0)

    def claim(self, to: str = HOOK, watcher: int = 0, finding: Alert = LATE) -> NoticeClaim | None:
        return self.nodes[watcher].do(self.watchers[watcher].claim(key_of(finding.kind, finding.subject), to, CLAIM))

    def conclude(self, claim: NoticeClaim, to: str = HOOK, *, sent: bool = True, watcher: int = 0) -> None:
        self.nodes[watcher].do(self.watchers[watcher].conclude(claim, to, sent=sent))

    def tell(self, to: str = HOOK, finding: Alert = LATE) -> str | None:
        """Send what is to be sent; which notice it was."""
        claim = self.claim(to, finding=finding)
        if claim is None:
            return None
        self.conclude(claim, to)
        return claim.delivery.notice

    def cell(self, finding: Alert = LATE) -> Cell:
        return self.store.load([key_of(finding.kind, finding.subject)]).cells[0]

    def alert(self, finding: Alert = LATE) -> Alert:
        cell = self.cell(finding)
        return decode_alert(cell.value, cell.key)

    def pass_time(self, span: timedelta) -> None:
        self.clock.turn(span.total_seconds())


@pytest.fixture
def office() -> Office:
    return Office()


# --- raised once ---


def test_a_finding_is_raised_once_however_many_look_and_however_often(office: Office) -> None:
    for watcher in (0, 1, 2, 0, 1):
        office.look(LATE, watcher=watcher, anew=True)
    assert office.alert() == Alert("late", "billing", "warning", "billing is late.", START)
    assert office.cell().mark is Mark.OPEN
    assert office.cell().version == 1


def test_two_that_raise_it_at_once_raise_one(office: Office) -> None:
    """The second has read that there is none, and loses."""

    def other_first(call: str) -> str:
        if call == "swap":
            office.store.lose = lambda _call: ""
            office.look(LATE, watcher=1)
        return ""

    office.store.lose = other_first
    office.look(LATE)
    assert office.store.calls.count("swap") == 2
    assert office.store.load([]).epoch.tally == 1


def test_the_text_is_written_anew_once_a_minute_at_most(office: Office) -> None:
    for seconds in range(5, 120, 5):  # 23 looks, five seconds apart
        office.look(LATE._replace(text=f"billing is late by {seconds} s."))
    assert office.alert().text == "billing is late by 65 s."
    assert office.cell().version == 2
    office.look(LATE._replace(text="billing is late by 120 s."))
    office.look(LATE._replace(text="billing is late by 125 s."))
    assert (office.alert().text, office.cell().version) == ("billing is late by 125 s.", 3)
    assert timedelta(seconds=60) == REWORDED


def test_what_gets_worse_is_told_again_at_once_and_what_gets_better_is_not(office: Office) -> None:
    worse = LATE._replace(severity="critical")
    office.look(LATE)
    assert office.tell() == "raised"
    office.look(worse)
    assert (office.alert().severity, office.tell()) == ("critical", "raised")
    office.look(LATE)
    office.look(worse)
    assert (office.alert().severity, office.alert().since, office.tell()) == ("critical", START, None)


@pytest.mark.parametrize("subject", ["x" * 201, "é" * 101, "two\nlines", "\x00"])
def test_a_subject_that_fits_into_no_key_is_hashed_there_and_kept_in_full(office: Office, subject: str) -> None:
    finding = LATE._replace(subject=subject)
    office.look(finding)
    assert len(key_of("late", subject)) == len("alert/late/#") + 32
    assert office.alert(finding).subject == subject
    assert key_of("late", subject + "x") != key_of("late", subject)


@pytest.mark.parametrize("subject", ["", "billing", "web-1:70:a", "x" * 200, "ein Job/mit <Zeichen>"])
def test_other_subjects_can_be_read_in_the_key(subject: str) -> None:
    assert key_of("late", subject) == f"alert/late/{subject}"


def test_an_alert_of_a_newer_cronce_is_left_to_that(office: Office) -> None:
    key = key_of(LATE.kind, LATE.subject)
    office.store.swap([Write(key, 0, '{"v":99}', Mark.OPEN)], office.store.load([]).epoch.seen)
    office.look(LOST)
    assert office.claim() is None
    assert office.alert(LOST).kind == "lost"
    assert office.cell().value == '{"v":99}'


def test_every_kind_is_documented() -> None:
    pages = [Path(__file__).parents[2] / "docs" / page for page in ("reference/alerts.md", "operate/alerts.md")]
    told = [page.read_text(encoding="utf-8") for page in pages]
    assert [kind for kind in AlertKind if not all(f"`{kind}`" in text for text in told)] == []


# --- told once ---


def test_a_notice_is_claimed_by_one(office: Office) -> None:
    office.look(LATE)
    claims = [office.claim(watcher=watcher) for watcher in (0, 1, 2)]
    assert [claim is not None for claim in claims] == [True, False, False]
    assert claims[0] is not None
    office.conclude(claims[0])
    office.pass_time(2 * CLAIM)
    assert office.claim(watcher=1) is None


def test_each_destination_is_told_for_itself(office: Office) -> None:
    office.look(LATE)
    assert [office.tell(to) for to in (HOOK, LOG, HOOK, LOG)] == ["raised", "raised", None, None]


def test_a_claim_whose_holder_died_lapses_and_another_sends_it(office: Office) -> None:
    office.look(LATE)
    assert office.claim(watcher=0) is not None
    office.pass_time(CLAIM - SECOND)
    assert office.claim(watcher=1) is None
    office.pass_time(SECOND)
    claim = office.claim(watcher=1)
    assert claim is not None
    assert claim.delivery.tries == 2


def test_who_comes_back_too_late_says_nothing_of_what_another_claimed(office: Office) -> None:
    office.look(LATE)
    first = office.claim(watcher=0)
    office.pass_time(CLAIM)
    second = office.claim(watcher=1)
    assert first is not None
    assert second is not None
    office.conclude(first, sent=False)
    assert office.alert().deliveries[HOOK] == second.delivery
    office.conclude(second)
    assert office.alert().deliveries[HOOK].sent is not None


def test_what_failed_is_tried_again_ever_later_by_whoever_comes_first(office: Office) -> None:
    office.look(LATE)
    pauses = []
    for watcher in (0, 1, 2, 0, 1, 2, 0, 1):
        claim = office.claim(watcher=watcher)
        assert claim is not None
        office.conclude(claim, sent=False)
        pauses.append(office.alert().deliveries[HOOK].until - office.clock.wall())
        office.pass_time(pauses[-1] - SECOND)
        assert office.claim() is None
        office.pass_time(SECOND)
    assert [span // SECOND for span in pauses] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert pause(1000) == MAX_NOTICE_PAUSE


def test_a_lost_reply_to_a_claim_is_a_claim(office: Office) -> None:
    office.look(LATE)
    office.store.lose_next("swap", "after")
    claim = office.claim()
    assert claim is not None
    assert office.alert().deliveries[HOOK] == claim.delivery


# --- cleared ---


def test_what_is_gone_once_is_not_over_yet(office: Office) -> None:
    office.look(LATE)
    office.look()
    office.look(LATE)
    office.look()
    assert office.alert().cleared is None
    office.look()
    assert office.alert().cleared is not None


def test_another_who_leads_now_looks_twice_for_itself(office: Office) -> None:
    office.look(LATE)
    office.look()
    office.look(watcher=1, anew=True)
    assert office.alert().cleared is None
    office.look(anew=True)  # the first leads again: what it saw before is long ago
    assert office.alert().cleared is None
    office.look()
    assert office.alert().cleared is not None


def test_what_whoever_looks_cannot_know_yet_is_not_over(office: Office) -> None:
    office.look(LATE)
    for number in range(3):
        office.look(over=lambda alert: alert.kind != "late", watcher=1, anew=not number)
    assert office.alert().cleared is None
    office.look(watcher=1)
    assert office.alert().cleared is None  # gone once
    office.look(watcher=1)
    assert office.alert().cleared is not None


def test_what_somebody_found_and_finds_no_more_is_over_however_short_it_has_watched(office: Office) -> None:
    office.look(LATE)
    office.look(LATE, watcher=1, anew=True)
    for _ in range(2):
        assert office.alert().cleared is None
        office.look(over=lambda _alert: False, watcher=1)
    assert office.alert().cleared is not None


def cleared(office: Office, finding: Alert = LATE, *told: str) -> None:
    office.look(finding)
    for to in told:
        assert office.tell(to, finding) == "raised"
    office.look()
    office.look()
    assert office.alert(finding).cleared is not None


def test_whoever_was_told_of_it_is_told_that_it_is_over_and_then_it_is_let_go(office: Office) -> None:
    cleared(office, LATE, HOOK, LOG)
    assert (office.tell(HOOK), office.cell().mark) == ("cleared", Mark.OPEN)
    assert (office.tell(LOG), office.cell().mark) == ("cleared", Mark.FREE)
    assert office.cell().until == office.clock.wall() + CLEARED_KEPT
    assert [office.tell(HOOK), office.tell(LOG)] == [None, None]


def test_whoever_was_not_told_of_it_is_not_told_that_it_is_over(office: Office) -> None:
    cleared(office, LATE, HOOK)
    assert office.tell(LOG) is None
    assert (office.tell(HOOK), office.cell().mark) == ("cleared", Mark.FREE)


def test_what_nobody_was_told_of_is_let_go_at_once(office: Office) -> None:
    cleared(office, LATE)
    assert office.cell().mark is Mark.FREE


def test_a_recovery_that_nobody_can_tell_any_more_is_let_go_after_an_hour(office: Office) -> None:
    cleared(office, LATE, HOOK)
    office.pass_time(GIVEN_UP - 10 * SECOND)
    office.look()
    assert office.cell().mark is Mark.OPEN
    office.look()
    office.look()
    assert (office.cell().mark, office.claim()) == (Mark.FREE, None)


def test_a_notice_of_which_nobody_knows_whether_it_came_is_followed_by_its_recovery(office: Office) -> None:
    office.look(LATE)
    assert office.claim() is not None  # and its sender died
    office.look()
    office.look()
    assert office.claim() is None  # it may still be on its way
    office.pass_time(CLAIM)
    claim = office.claim()
    assert claim is not None
    assert claim.delivery.notice == "cleared"


# --- nothing flaps ---


def test_what_was_acknowledged_before_anybody_was_told_is_not_sent_unless_it_gets_worse(office: Office) -> None:
    """It was sent by the first watcher that started afterwards."""
    office.look(LATE)
    handled = office.watchers[1].handle(key_of(LATE.kind, LATE.subject), "ada", "on it", None)
    assert office.nodes[1].do(handled) is not None
    assert office.tell() is None
    office.look(LATE._replace(severity="critical"))
    assert office.tell() == "raised"


def test_what_comes_back_at_once_is_the_same_alert_and_told_again_only_if_it_stays(office: Office) -> None:
    cleared(office, LATE, HOOK)
    assert office.tell() == "cleared"
    before = office.alert().cleared
    assert before is not None
    office.look(LATE._replace(since=office.clock.wall()))
    assert (office.alert().since, office.alert().times, office.tell()) == (START, 2, None)
    office.clock.turn((before + QUIET_BEFORE_CLEARED - office.clock.wall()).total_seconds() - 1)
    assert office.tell() is None
    office.clock.turn(1)
    assert office.tell() == "raised"


def test_what_comes_and_goes_within_five_minutes_is_told_of_twice_in_all(office: Office) -> None:
    cleared(office, LATE, HOOK)
    told = [office.tell()]
    for _ in range(10):  # fifteen seconds each
        office.look(LATE)
        told.append(office.tell())
        office.look()
        office.look()
        told.append(office.tell())
    assert [one for one in told if one] == ["cleared"]
    assert office.alert().times == 11


def test_what_is_critical_is_told_at_once_when_it_is_back(office: Office) -> None:
    cleared(office, LOST, HOOK)
    assert office.tell(finding=LOST) == "cleared"
    office.look(LOST)
    assert office.tell(finding=LOST) == "raised"


def test_what_comes_back_later_is_another_alert(office: Office) -> None:
    cleared(office, LATE, HOOK)
    assert office.tell() == "cleared"
    office.pass_time(QUIET_BEFORE_CLEARED)
    later = LATE._replace(since=office.clock.wall())
    office.look(later)
    assert (office.alert().since, office.alert().times, office.cell().mark) == (later.since, 2, Mark.OPEN)
    assert office.tell() == "raised"


# --- many ---


def failing(*numbers: int) -> list[Alert]:
    return [Alert(AlertKind.FAILED, f"job-{number:03}", "critical", "it failed.", START) for number in numbers]


def told(office: Office) -> list[tuple[str, str]]:
    """Everything that is to be told, until nothing is."""
    said: list[tuple[str, str]] = []
    while True:
        seen = office.nodes[0].do(office.watchers[0].standing())
        ready = [one for one in seen.posted if due(one.alert, HOOK, seen.now)]
        if not ready:
            return said
        claim = office.nodes[0].do(office.watchers[0].claim(ready[0].cell.key, HOOK, CLAIM))
        assert claim is not None
        office.conclude(claim)
        said.append((claim.alert.subject, claim.delivery.notice))


def test_a_thousand_that_fail_and_recover_in_portions_are_told_of_22_times(office: Office) -> None:
    said: list[tuple[str, str]] = []
    for left in (1000, 1000, 900, 500, 300, 100, 15, 3, 0, 0):
        office.look(*failing(*range(1000 - left, 1000)))
        said += told(office)
    office.look()
    said += told(office)
    first = [*(f"job-{number:03}" for number in range(10)), "*"]
    assert sorted(said) == sorted((subject, state) for subject in first for state in ("raised", "cleared"))


def test_the_rest_is_one_and_nobody_moves_out_of_it_while_it_stands(office: Office) -> None:
    office.look(*failing(*range(12)))
    rest = LATE._replace(kind=AlertKind.FAILED, subject="*")
    assert office.alert(rest).text == "failed: and 2 more, such as job-010: it failed."
    office.look(*failing(*range(5, 12)))
    for anew in (True, False):
        office.look(*failing(*range(5, 12)), watcher=1, anew=anew)  # whoever leads
    office.look(*failing(0, *range(5, 12)), watcher=1)
    assert sorted(one.alert.subject for one in office.nodes[0].do(office.watchers[0].standing()).posted) == [
        "*", *(f"job-{number:03}" for number in range(5, 10))
    ]  # fmt: skip
    for _ in range(2):
        office.look(*failing(*range(5, 10)), watcher=1)
    assert office.alert(rest).cleared is not None
    office.look(*failing(0, *range(5, 10)), watcher=1)
    assert office.alert(failing(0)[0]).cleared is None


def test_where_nobody_is_alive_each_job_that_misses_its_slot_says_nothing_new(office: Office) -> None:
    silent = Alert(AlertKind.SILENT, "", "critical", "no scheduler is alive.", START)
    missed = [LATE._replace(kind=AlertKind.MISSED, subject=name) for name in ("a", "b")]
    office.look(missed[0])
    for _ in range(3):
        office.look(silent, *missed, LATE)
    seen = office.nodes[0].do(office.watchers[0].standing())
    assert sorted((one.alert.kind, one.alert.subject) for one in seen.posted) == [("missed", "a"), ("silent", "")]
    office.look(*missed)
    assert office.alert(missed[1]).cleared is None


def test_what_is_only_worth_knowing_does_not_keep_alive_what_was_worse(office: Office) -> None:
    known = LATE._replace(severity="info")
    office.look(LATE)
    assert office.tell() == "raised"
    for _ in range(3):
        office.look(known)
    assert office.tell() == "cleared"
    office.look(known)
    assert (office.alert().severity, office.alert().cleared) == ("info", None)
    office.look(LATE)  # and it may be worse again
    assert (office.alert().severity, office.tell()) == ("warning", "raised")

"""Whether the store's clock is believed: a leap is not, until it has come back, or is shown to be right."""

from datetime import UTC, datetime, timedelta

import pytest

from cronce.model import EPOCH, Fence, Instant, Mark, Traits
from cronce.protocol.commands import Ask, Change, Command, Finish, Renew
from cronce.protocol.lease import Sample
from cronce.protocol.record import Outcome, Record, State
from cronce.protocol.store_clock import Believed, Doubt, Host, is_dated, is_said, judged, recalled

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
BOOT = 5000.0
EXACT = Traits("exact")
OWN = Traits("own", own_clock=True)
HOUR = timedelta(hours=1)
DAYS = timedelta(days=400)
FENCE = Fence(1, 1)
CLOSED = Record(State.CLOSED, outcome=Outcome.SUCCEEDED)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Machine:
    """A process that reads the store's clock once a second; a test sets that clock, and the machine's own."""

    def __init__(self, traits: Traits = EXACT, *, synchronised: bool = False) -> None:
        self.traits, self.synchronised = traits, synchronised
        self.passed = 0.0
        self.leap = self.own = timedelta(0)
        self.state = Believed()

    def sample(self, took: float = 0.002) -> Sample:
        boot = BOOT + self.passed
        return Sample(boot, boot + took, NOON + seconds(self.passed + took / 2) + self.leap)

    def read(self, took: float = 0.002, born: Instant = EPOCH) -> bool:
        """Whether it is in doubt then."""
        wall = NOON + seconds(self.passed + took) + self.own
        host = Host(wall, lambda: self.synchronised, self.traits.own_clock)
        self.state = judged(self.state, self.sample(took), host, self.traits, born)
        return self.state.doubt is not None

    def doubts(self, number: int, every: float = 1.0) -> int:
        """Of so many readings, in how many it is in doubt."""
        found = 0
        for _ in range(number):
            self.passed += every
            found += self.read()
        return found

    @property
    def why(self) -> str:
        assert self.state.doubt is not None
        return self.state.doubt.why

    def believes(self, now: Instant) -> bool:
        return abs(self.state.now(BOOT + self.passed) - now) < seconds(0.1)


def steady(traits: Traits = EXACT, *, synchronised: bool = False) -> Machine:
    machine = Machine(traits, synchronised=synchronised)
    assert (machine.read(), machine.doubts(10)) == (False, 0)
    return machine


@pytest.mark.parametrize("leap", [HOUR, -HOUR, DAYS, -DAYS, seconds(20), seconds(-20)])
def test_a_clock_that_leaps_and_comes_back_is_never_believed(leap: timedelta) -> None:
    machine = steady()
    machine.leap = leap
    assert machine.doubts(60) == 60
    assert machine.believes(NOON + seconds(70))
    machine.leap = timedelta(0)
    assert machine.doubts(3) == 0
    assert machine.state.since == 0.0


def test_what_runs_a_little_unevenly_is_no_leap() -> None:
    machine = steady()
    for nudge in (0.9, -0.05, -0.9, 0.0):
        machine.leap = seconds(nudge)
        assert machine.doubts(1) == 0
    assert steady(Traits("vague", skew=seconds(2), step=seconds(1))).doubts(1) == 0


def test_how_exact_a_store_is_decides_what_a_leap_is() -> None:
    vague = steady(Traits("vague", skew=seconds(0.75), step=seconds(1)))
    vague.leap = seconds(1.7)
    assert vague.doubts(1) == 0
    vague.leap = seconds(4)
    assert vague.doubts(1) == 1


def test_after_a_long_silence_clocks_may_have_drifted_apart() -> None:
    machine = steady()
    machine.passed, machine.leap = 36_000.0, seconds(20)
    assert machine.doubts(1) == 0
    machine.passed, machine.leap = 72_000.0, seconds(90)
    assert machine.doubts(1) == 1


def test_a_slow_answer_is_believed_only_where_there_is_no_other() -> None:
    machine = Machine()
    assert not machine.read(took=30.0)
    machine.passed += 30.0
    assert machine.believes(NOON + seconds(15))  # it is that late at least
    machine.passed += 1.0
    assert not machine.read()
    assert machine.believes(NOON + seconds(31))
    machine.passed += 31.0
    assert not machine.read(took=30.0)
    assert machine.believes(NOON + seconds(62))


def test_a_slow_answer_proves_nothing_and_contradicts_nothing() -> None:
    machine = steady()
    machine.leap = seconds(3)
    assert machine.read(took=8.0) is False
    machine.leap = timedelta(0)
    assert machine.doubts(1) == 0
    machine.leap = HOUR
    assert machine.read(took=8.0) is True


def test_a_slow_answer_that_may_be_right_ends_no_doubt() -> None:
    """It fits any clock that leapt by less than it took; and then every reading of that clock fitted the slow one."""
    machine = steady()
    machine.leap = seconds(20)
    assert machine.doubts(1) == 1
    machine.passed += 1
    assert machine.read(took=45.0) is True
    machine.passed += 45
    assert machine.doubts(3) == 3


def test_an_older_answer_that_comes_late_changes_nothing() -> None:
    machine = steady()
    late = machine.sample()
    machine.doubts(1)
    before = machine.state
    assert judged(before, late, Host(NOON, lambda: False), EXACT) is before


# --- a leap that is right -------------------------------------------------------------------------------------------


def test_a_store_that_is_put_right_is_believed_five_seconds_later() -> None:
    """Its clock was an hour behind, and this machine's own was not."""
    machine = Machine()
    machine.leap = -HOUR
    machine.state = Believed(machine.sample(), wall=NOON + seconds(0.002))
    machine.leap = timedelta(0)
    assert machine.doubts(10) == 5
    assert machine.believes(NOON + seconds(10))
    assert machine.state.since == pytest.approx(BOOT + 1)


@pytest.mark.parametrize("traits", [EXACT, OWN])
@pytest.mark.parametrize(("synchronised", "doubted"), [(True, 5), (False, 400)])
def test_a_machine_whose_own_clock_leapt_too_has_to_be_synchronised(
    traits: Traits, synchronised: bool, doubted: int
) -> None:
    """A wrong RTC before NTP, a virtual machine that stood still, or a store on this very machine."""
    machine = steady(traits, synchronised=synchronised)
    machine.leap = machine.own = 2 * HOUR
    assert machine.doubts(400) == doubted


def test_a_small_leap_is_believed_after_five_even_minutes() -> None:
    machine = steady()
    machine.leap = seconds(100)
    assert machine.doubts(400) == 300
    machine = steady()
    machine.leap = seconds(100)
    assert machine.doubts(200) == 200
    machine.leap = seconds(200)
    assert machine.doubts(400) == 300


def test_a_large_leap_away_from_this_machines_clock_is_a_persons_to_judge() -> None:
    machine = steady(synchronised=True)
    machine.leap = HOUR
    assert machine.doubts(4000) == 4000
    assert machine.why == "jumped 1h ahead"
    machine.leap = -HOUR
    assert machine.doubts(1) == 1
    assert machine.why == "jumped 1h back"


def test_a_persons_word_holds_for_an_hour_of_that_very_clock() -> None:
    doubt = Doubt("", HOUR, Sample(0.0, 0.0, NOON))
    said = [is_said(doubt, NOON + seconds(said), NOON) for said in (-3601, -3600, 0, 1)]
    assert said == [False, True, True, False]
    assert is_said(doubt._replace(by_birth=True), NOON - DAYS, NOON)
    assert not is_said(doubt, None, NOON)


# --- a process that has just begun ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("off", "doubted"), [(0, False), (299, False), (-299, False), (301, True), (-301, True)])
def test_a_new_process_believes_a_clock_that_agrees_with_its_own_to_five_minutes(off: int, doubted: bool) -> None:
    machine = Machine()
    machine.leap = seconds(off)
    assert machine.read() is doubted
    assert machine.doubts(1) == doubted
    machine.leap = timedelta(0) if doubted else machine.leap
    assert machine.doubts(1) == 0


def test_a_new_process_in_a_leap_says_which_clocks_disagree() -> None:
    machine = Machine()
    machine.leap = -DAYS
    assert machine.doubts(400) == 400
    assert machine.why == "is 400d behind this machine's"


def test_a_new_process_goes_on_from_what_others_saw_since_this_boot() -> None:
    seen = [Sample(BOOT + at, BOOT + at + 0.002, NOON + seconds(at)) for at in (0, 15, 30)]
    machine = Machine(OWN)
    machine.passed = 60.0
    machine.state = recalled(seen, OWN)
    assert machine.doubts(1) == 0
    machine = Machine(OWN)
    machine.passed, machine.leap, machine.own = 60.0, 2 * HOUR, 2 * HOUR
    machine.state = recalled(seen, OWN)
    assert machine.doubts(30) == 30
    machine.leap = machine.own = timedelta(0)
    assert machine.doubts(1) == 0


def test_what_others_saw_in_a_leap_is_passed_over() -> None:
    seen = [Sample(BOOT + at, BOOT + at, NOON + seconds(at) + (HOUR if at == 15 else 0 * HOUR)) for at in (0, 15, 30)]
    state = recalled(seen, EXACT)
    assert (state.last, state.doubt) == (seen[-1], None)
    assert recalled(seen[:2], EXACT).last == seen[0]


@pytest.mark.parametrize(("up", "synchronised", "doubted"), [(119, False, 1), (119, True, 0), (121, False, 0)])
def test_right_after_a_boot_a_clock_that_is_the_stores_too_has_to_be_synchronised(
    up: float, synchronised: bool, doubted: int
) -> None:
    """A wrong RTC before NTP agrees with itself."""
    for traits, expected in ((OWN, doubted), (EXACT, 0)):
        machine = Machine(traits, synchronised=synchronised)
        machine.passed = up - 1 - BOOT
        assert machine.doubts(1) == expected
        assert machine.doubts(2) == 0


def test_a_store_is_never_younger_than_its_own_birth() -> None:
    machine = steady()
    machine.passed += 1
    assert machine.read(born=NOON + HOUR) is True
    assert machine.why.startswith("says 2026-03-29T12")
    machine.passed += 1
    assert machine.read(born=NOON) is False


# --- what is dated ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "record", "expected"),
    [
        (Finish(FENCE, Outcome.SUCCEEDED), CLOSED, False),
        (Finish(FENCE, Outcome.SUCCEEDED), CLOSED._replace(keep=HOUR), True),  # it is known for an hour from now on
        (Finish(FENCE, Outcome.FAILED), Record(State.RETRYING), True),  # it rests from now on
        (Renew(FENCE), Record(State.RUNNING), True),
        (Ask("too long"), Record(State.RUNNING), False),
    ],
)
def test_an_end_is_dated_by_the_store_only_where_it_is_to_be_forgotten_or_tried_again(
    command: Command, record: Record, expected: bool
) -> None:
    assert is_dated(command, Change(record, Mark.OPEN)) is expected

"""The table says in one word what each process did about a slot."""

from cronce.demo.picture import DemoAccount, SlotMark, mark, time_of
from cronce.testing.ledger_file import parse

A, B, C = NAMES = ("a", "b", "c")
SLOT, NEXT = "report@2026-03-29T08:17:05Z", "report@2026-03-29T08:17:06Z"


def account(*texts: str, slot: str = SLOT) -> DemoAccount:
    """What `what who fence` lines say of a slot."""
    made = DemoAccount()
    made.add(parse(f"{what} {who} {slot} {fence} 1 -" for what, who, fence in map(str.split, texts)))
    return made


def marks(seen: DemoAccount, slot: str = SLOT) -> list[str]:
    return [str(mark(seen, slot, who)) for who in NAMES]


def test_one_runs_and_the_others_are_refused() -> None:
    seen = account("refused b -", "start a f1")
    assert marks(seen) == ["running", "·", ""]
    seen = account("refused b -", "start a f1", "done a f1", "refused c -")
    assert marks(seen) == ["ran", "·", "·"]


def test_who_was_killed_in_a_slot_is_taken_over_by_who_was_refused_before() -> None:
    seen = account("start a f1", "refused b -", "refused c -")
    seen.killed[A] = SLOT
    assert marks(seen) == ["killed", "·", "·"]
    seen.add(parse([f"start b {SLOT} f2 2 -", f"done b {SLOT} f2 2 -"]))
    assert marks(seen) == ["killed", "took over", "·"]
    assert marks(seen, NEXT) == ["", "", ""]


def test_who_was_paused_did_not_run_under_the_guard_and_ran_late_without_it() -> None:
    guarded = account("start a f1", "start b f2", "done b f2", "stopped a -")
    guarded.paused[A] = SLOT
    assert marks(guarded) == ["paused", "took over", ""]
    unguarded = account("start a -", "start b -", "done b -")
    unguarded.paused[A] = SLOT
    assert marks(unguarded) == ["paused", "ran again", ""]
    unguarded.add(parse([f"done a {SLOT} - 1 -"]))
    assert marks(unguarded) == ["ran late", "ran again", ""]


def test_who_starts_what_another_has_started_ran_again() -> None:
    assert marks(account("start b -", "start a -", "done a -", "done b -")) == ["ran again", "ran", ""]


def test_who_was_stopped_without_a_pause_says_so() -> None:
    assert mark(account("start a f1", "stopped a -"), SLOT, A) is SlotMark.STOPPED


def test_a_process_is_in_the_middle_of_a_slot_until_it_answers() -> None:
    assert account("start a f1").runs(SLOT, A)
    assert not account("start a f1").runs(SLOT, B)
    assert not account("start a f1", "done a f1").runs(SLOT, A)
    assert not account("start a f1", "stopped a -").runs(SLOT, A)
    assert account("start b f1", "refused a -", "start a f2").runs(SLOT, A)
    assert account("start a f1", "stopped a -", "start a f2").runs(SLOT, A)


def test_a_slot_is_shown_by_its_time_of_day() -> None:
    assert time_of(SLOT) == "08:17:05"

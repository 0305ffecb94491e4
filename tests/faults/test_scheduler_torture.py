"""Torture of schedulers: started as often as you like, whatever is done to them, each slot runs once.

A few seconds on a file and on a server; a minute on each store, with three and with eight of them, is in
`torture_proof.py`.
"""

from pathlib import Path

from cronce.model import unspell
from cronce.testing.ledger_file import LedgerLine
from cronce.torture.fault_actions import InjectedFault
from cronce.torture.faults import COLOURS, EVERYBODY
from cronce.torture.harness import Torture, TortureResult, TortureSettings
from cronce.torture.plan import Kind, plan
from tests.faults.test_torture import cells
from tests.servers.valkey import Valkey

BRIEF = 5
OBEYED = 2.5
"""Seconds after which whoever shall claim no more does not: two looks. Only slots that are due later are held against
it. One that was due before may have been claimed in time, by a process that then stood still before it ran it."""


def seed_of(*kinds: Kind) -> int:
    """The first seed whose plan has all these in it, and is soon over."""
    plans = ((seed, plan(seed, BRIEF, 2.5, kinds)) for seed in range(100_000))
    return next(
        seed
        for seed, faults in plans
        if {fault.kind for fault in faults} == {*kinds} and all(fault.at + fault.lasts < BRIEF for fault in faults)
    )


def check_scheduled(result: TortureResult) -> None:
    """Green, under rerun every slot ran unless it is on record why not, and whoever was drained obeyed."""
    assert [verdict.passed(forgot=result.forgot) for verdict in result.verdicts] == [True, True], result.verdicts
    skip, rerun = result.verdicts
    assert (skip.slots, rerun.slots) == (len(result.slots), len(result.slots))
    assert (rerun.failed, rerun.lost) == (0, 0)
    if not result.forgot and result.settings.missed == "all" and not result.faults["deploy"]:
        assert rerun.runs == rerun.slots
    assert [line for deed in result.deeds if deed.kind == "drain" for line in disobedient(result, deed)] == []


def disobedient(result: TortureResult, drain: InjectedFault) -> list[LedgerLine]:
    """Bodies of slots that fell due when their process was drained, and nothing kept it from learning that."""
    hit = {deed.who for deed in result.deeds if deed.ended > drain.began and deed.began < drain.ended and deed != drain}
    names = {f"w{number + 1}" for number in range(result.settings.processes) if colour(number) == drain.who} - hit
    starts = [line for line in result.lines if line.what == "start" and line.who in names and EVERYBODY not in hit]
    return [line for line in starts if drain.began + OBEYED < due(result, line) <= float(line.when) < drain.ended]


def due(result: TortureResult, line: LedgerLine) -> float:
    """When its slot was, on the boot clock."""
    return result.first + (unspell(line.slot.partition("@")[2]) - result.slots[0]).total_seconds()


def tortured(url: str, folder: Path, *kinds: Kind) -> TortureResult:
    settings = TortureSettings(
        url, BRIEF, processes=3, seed=seed_of(*kinds), scheduler=True, only=kinds, workers=1, slow=0.5
    )
    result = Torture(settings, folder).run()
    assert result.faults.keys() == {*kinds}
    assert cells(url) == []
    return result


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def test_a_file_with_schedulers_one_stopped_some_drained_and_all_deployed_and_rolled_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    check_scheduled(tortured(url, tmp_path, "pause", "drain", "deploy", "rollback"))


def test_a_server_with_schedulers_one_killed_and_then_all_twice(valkey: Valkey, tmp_path: Path) -> None:
    """Each has one worker: what waits for it when they are back is a backlog, of new slots and of those taken over."""
    result = tortured(valkey.url, tmp_path, "kill", "blackout")
    check_scheduled(result)
    back = max(deed.ended for deed in result.deeds if deed.kind == "blackout")
    assert len({line.slot for line in result.lines if line.what == "start" and float(line.when) > back}) > 1

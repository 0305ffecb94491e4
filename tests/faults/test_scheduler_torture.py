"""Torture of schedulers: started as often as you like, whatever is done to them, each slot runs once.

A few seconds on a file and on a server; a minute on each store, with three and with eight of them, is in
`torture_proof.py`.
"""

from pathlib import Path

from cronce.torture.faults import COLOURS
from cronce.torture.harness import Result, Settings, Torture
from cronce.torture.plan import Kind, plan
from tests.faults.test_torture import cells
from tests.servers.valkey import Valkey

BRIEF = 5
OBEYED = 2.5
"""Seconds after which whoever shall claim no more does not: two looks."""


def seed_of(*kinds: Kind) -> int:
    """The first seed whose plan has all these in it, and is soon over."""
    plans = ((seed, plan(seed, BRIEF, 2.5, kinds)) for seed in range(100_000))
    return next(
        seed
        for seed, faults in plans
        if {fault.kind for fault in faults} == {*kinds} and all(fault.at + fault.lasts < BRIEF for fault in faults)
    )


def check_scheduled(result: Result) -> None:
    """Green, under rerun every slot ran unless it is on record why not, and whoever was drained obeyed."""
    assert [verdict.passed(forgot=result.forgot) for verdict in result.verdicts] == [True, True], result.verdicts
    skip, rerun = result.verdicts
    assert (skip.slots, rerun.slots) == (len(result.slots), len(result.slots))
    excused = rerun.unknown + rerun.skipped - rerun.twice
    assert rerun.runs == rerun.slots - excused
    if not result.forgot and result.settings.missed == "all" and not result.faults["deploy"]:
        assert excused == 0
    for deed in result.deeds:
        if deed.kind == "drain":
            names = {f"w{number + 1}" for number in range(result.settings.processes) if colour(number) == deed.who}
            times = [float(line.when) for line in result.lines if line.what == "start" and line.who in names]
            assert [time for time in times if deed.began + OBEYED < time < deed.ended] == []


def tortured(url: str, folder: Path, *kinds: Kind) -> Result:
    settings = Settings(url, BRIEF, processes=3, seed=seed_of(*kinds), scheduler=True, only=kinds, workers=1, slow=0.5)
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

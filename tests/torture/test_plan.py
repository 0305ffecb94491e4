"""A plan is the same for the same seed, and in a minute everything happens that can."""

import pytest

from cronce.torture.plan import DEPLOYS, KILL_AGAIN_AFTER, LIFE, NETWORK_FAULTS, SIGNALS, Kind, plan

ALL: tuple[Kind, ...] = (*SIGNALS, *NETWORK_FAULTS, "lock")


def test_a_seed_gives_the_same_plan_and_another_gives_another() -> None:
    assert plan(7, 60, 2.5, ALL) == plan(7, 60, 2.5, ALL)
    assert plan(7, 60, 2.5, ALL) != plan(8, 60, 2.5, ALL)


@pytest.mark.parametrize("seed", range(50))
def test_in_a_minute_everything_happens_and_nothing_else(seed: int) -> None:
    faults = plan(seed, 60, 2.5, ALL)
    assert {fault.kind for fault in faults} == set(ALL)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 < fault.at < 59 and 0 <= fault.dice < 1 for fault in faults)
    assert {fault.kind for fault in plan(seed, 60, 2.5, SIGNALS)} == set(SIGNALS)


@pytest.mark.parametrize("seed", range(50))
def test_a_pause_is_longer_than_the_lease_and_an_outage_may_be_either(seed: int) -> None:
    faults = plan(seed, 600, 2.5, ALL)
    assert min(fault.lasts for fault in faults if fault.kind == "pause") > 2.5
    for kind in ("outage", "cut"):
        lengths = [fault.lasts for fault in faults if fault.kind == kind]
        assert min(lengths) < 2.5 < max(lengths)


def test_a_restart_and_a_loss_happen_once_each_in_the_middle() -> None:
    faults = plan(1, 60, 2.5, (*ALL, "restart", "empty"))
    assert [fault[:2] for fault in faults if fault.kind in ("restart", "empty")] == [("restart", 24), ("empty", 36)]


@pytest.mark.parametrize("seed", range(50))
def test_what_is_done_to_schedulers_happens_too(seed: int) -> None:
    faults = plan(seed, 60, 2.5, (*SIGNALS, *LIFE, *DEPLOYS))
    assert {fault.kind for fault in faults} == {*SIGNALS, *LIFE, *DEPLOYS}
    assert [fault[:2] for fault in faults if fault.kind in DEPLOYS] == [("deploy", 6), ("rollback", 30)]


@pytest.mark.parametrize("seed", range(50))
def test_all_are_killed_again_soon_after_they_came_back(seed: int) -> None:
    out = [fault for fault in plan(seed, 60, 2.5, (*SIGNALS, *LIFE)) if fault.kind == "blackout"]
    pairs = list(zip(out[::2], out[1::2], strict=True))
    assert pairs
    assert all(
        KILL_AGAIN_AFTER[0] <= second.at - first.at - first.lasts <= KILL_AGAIN_AFTER[1] for first, second in pairs
    )


def test_deploys_may_be_all_there_is() -> None:
    assert [fault.kind for fault in plan(1, 60, 2.5, DEPLOYS)] == ["deploy", "rollback"]

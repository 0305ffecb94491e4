"""Who is alive, which version fires, who goes first."""

from collections import Counter
from datetime import timedelta

import pytest

from cronce import Cronce
from cronce.errors import StoreUnavailable
from cronce.model import Slot, holder_cell
from cronce.protocol.notices import Holder, decode_holder
from cronce.protocol.record import decode_job
from cronce.runtime.scheduling.roster import HOLDER_TTL, Roster, digest_of, rank, seed
from cronce.stores.base import Scan
from tests.runtime.scheduling.manual_cluster import ManualCluster
from tests.runtime.shelf import START, HandClock, HandNode, Wire

V1 = {"billing": ("v1", "every 1s")}
V2 = {"billing": ("v2", "every 2s")}
MINUTE = timedelta(minutes=1)


class Member:
    """A process on the roster."""

    def __init__(self, store: Wire, name: str, specs: dict[str, tuple[str, str]] = V1, role: str = "both") -> None:
        self.node, self.specs = HandNode(store, name), specs
        self.me = Holder(name, digest_of(specs), role, 1, {}, store.clock.wall(), "")
        self.roster = Roster(self.node.ledger.client, self.node.ledger.jobs)

    def beat(self) -> "Member":
        self.node.do(self.roster.beat(self.me, self.specs, self.node.store.clock.boot()))
        return self

    def leave(self) -> None:
        self.node.do(self.roster.leave(self.me))

    @property
    def live(self) -> set[str]:
        return {one.holder for one in self.roster.live}

    def place(self, minute: int, job: str = "billing") -> int:
        return self.roster.place(Slot(job, START + minute * MINUTE))


def firing(store: Wire) -> str:
    return decode_job(store.load(["job/billing"]).cells[0].value).firing


# --- who is alive ---


def test_who_has_not_beaten_for_its_time_is_gone(store: Wire, clock: HandClock) -> None:
    one, two = Member(store, "web-1").beat(), Member(store, "web-2").beat()
    assert one.beat().live == two.live == {"web-1", "web-2"}
    for _ in range(4):
        clock.turn(10)
        one.beat()
    assert one.live == {"web-1"}


def test_a_beat_that_looks_old_by_a_clock_nobody_watched_still_counts(store: Wire, clock: HandClock) -> None:
    Member(store, "web-1").beat()
    clock.turn(300)
    assert Member(store, "web-2").beat().live == {"web-1", "web-2"}


def test_who_leaves_is_gone_at_once_and_when_it_was_there_is_remembered(store: Wire, clock: HandClock) -> None:
    Member(store, "web-1").beat().leave()
    clock.turn(60)
    two = Member(store, "web-2").beat()
    assert two.live == {"web-2"}
    assert two.roster.looked_after("billing") == START
    left = decode_holder(store.load([holder_cell("web-1")]).cells[0].value)
    assert (left.role, left.gone) == ("both", True)


def test_who_died_was_there_until_its_last_beat(store: Wire, clock: HandClock) -> None:
    Member(store, "web-1").beat()
    clock.turn(600)
    two = Member(store, "web-2").beat()
    assert two.roster.looked_after("billing") == START
    assert two.roster.looked_after("reports") is None


def test_who_came_a_moment_ago_may_not_have_looked_yet(store: Wire, clock: HandClock) -> None:
    Member(store, "web-1").beat()
    clock.turn(600)
    Member(store, "web-2").beat()
    clock.turn(1)
    assert Member(store, "web-3").beat().roster.looked_after("billing") == START
    clock.turn(9)
    assert Member(store, "web-4").beat().roster.looked_after("billing") == START + timedelta(seconds=601)


def test_a_deploy_of_many_jobs_beats_with_a_few_bytes(store: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.runtime.scheduling.roster.JOBS_PER_CELL", 100)
    specs = {f"job-{number}": ("v1", "every 1s") for number in range(250)}
    Member(store, "web-1", specs).beat()
    assert len(store.load([holder_cell("web-1")]).cells[0].value) < 200
    assert len(store.scan(Scan("bundle/")).cells) == 3
    assert len(store.scan(Scan("job/", limit=5000)).cells) == 250
    store.calls.clear()
    Member(store, "web-1", specs).beat()
    assert store.calls.count("swap") == 1  # all is registered: nothing is written but the beat


# --- which version fires ---


def test_the_newest_version_with_a_live_holder_fires(store: Wire, clock: HandClock) -> None:
    old = Member(store, "blue", V1).beat()
    assert firing(store) == "v1"
    new = Member(store, "green", V2).beat()
    assert firing(store) == "v2"
    old.beat()
    Member(store, "blue-2", V1).beat()  # a restarted pod of the old deploy does not flip it back
    assert firing(store) == "v2"
    new.leave()
    old.beat()
    assert firing(store) == "v1"


def test_a_version_whose_holders_died_gives_way_when_their_beats_lapse(store: Wire, clock: HandClock) -> None:
    old = Member(store, "blue", V1).beat()
    Member(store, "green", V2).beat()
    for _ in range(int(HOLDER_TTL.total_seconds()) - 1):
        clock.turn(1)
        old.beat()
        assert firing(store) == "v2"
    clock.turn(2)
    old.beat()
    assert firing(store) == "v1"


def test_a_version_that_died_in_a_leap_of_the_clock_gives_way_when_it_is_over(store: Wire, clock: HandClock) -> None:
    """Its last beat is dated far ahead."""
    old = Member(store, "blue", V1).beat()
    new = Member(store, "green", V2).beat()
    clock.leap = timedelta(days=400)
    new.beat()
    clock.leap = timedelta(0)
    for _ in range(int(HOLDER_TTL.total_seconds())):
        clock.turn(1)
        old.beat()
        assert firing(store) == "v2"
    clock.turn(2)
    old.beat()
    assert firing(store) == "v1"


def test_after_the_store_forgot_everything_is_registered_again(store: Wire) -> None:
    one = Member(store, "web-1").beat()
    store._cells.clear()
    epoch = store._epoch
    store._epoch = epoch._replace(birth=epoch.birth + 1)
    one.beat()
    assert firing(store) == "v1"


def test_a_version_that_came_and_went_between_two_beats_does_not_fire_for_good(store: Wire) -> None:
    one = Member(store, "web-1").beat()
    Member(store, "web-2", V2).beat().leave()
    one.node.ledger.know.forget_jobs()  # the board says that there is news
    one.node.do(one.node.ledger.jobs.learn("billing"))
    assert [firing(store)] + [firing(one.beat().node.store) for _ in range(2)] == ["v2", "v2", "v1"]


# --- who goes first ---


def test_every_slot_has_one_first_one_second_one_third(store: Wire) -> None:
    members = [Member(store, f"web-{number}").beat() for number in range(3)]
    for member in members:
        member.beat()
    for minute in range(50):
        assert sorted(member.place(minute) for member in members) == [0, 1, 2]


def test_slots_spread_evenly_and_hardly_move_when_one_goes(store: Wire) -> None:
    holders = [seed(f"web-{number}:70{number}:1f") for number in range(8)]
    keys = [seed(f"billing@{number}") for number in range(8000)]

    def firsts(alive: list[int]) -> list[int]:
        return [next(me for me in alive if rank(key, me, [one for one in alive if one != me]) == 0) for key in keys]

    before, after = firsts(holders), firsts(holders[1:])
    assert all(850 < many < 1150 for many in Counter(before).values())  # 1000 each, and five times its deviation
    assert all(was == now for was, now in zip(before, after, strict=True) if was != holders[0])


def test_others_are_beside_it_only_if_they_do_the_same_for_the_same_version(store: Wire) -> None:
    me = Member(store, "web-1").beat()
    Member(store, "new", V2).beat()
    Member(store, "clerk", role="schedule").beat()
    drained = Member(store, "drained")
    drained.me = drained.me._replace(draining=True)
    drained.beat()
    assert [me.beat().place(minute) for minute in range(20)] == [0] * 20


def test_a_bundle_whose_writing_got_no_answer_is_written_again(store: Wire) -> None:
    one = Member(store, "web-1")
    store.lose_next("swap", "before")
    with pytest.raises(StoreUnavailable):
        one.beat()
    one.beat()
    assert len(store.scan(Scan("bundle/")).cells) == 1


# --- an edit of how a run goes ---


def haul(timeout: str) -> Cronce:
    cron = Cronce("memory:")
    cron.job(every="10s", name="haul", missed="all", timeout=timeout, on_lost="skip")(lambda: None)
    return cron


def test_what_fell_due_while_nobody_looked_runs_after_an_edit_of_the_timeout() -> None:
    """The edit raised the floor to now: the slots of second 20 to 120 were dropped, which an unedited job ran."""
    with ManualCluster(haul("2m")) as cluster:
        before = cluster.join("old:1:0")
        cluster.turn_to(15_000)
        cluster.kill(before)
        cluster.turn_to(125_000)
        cluster.cron = haul("3m")
        cluster.join("new:1:0")
        cluster.turn_to(135_000)
    assert sorted(begun.slot for begun in cluster.begun) == list(range(10, 140, 10))


def test_the_old_version_fires_on_when_the_newer_process_is_killed() -> None:
    """Nothing fired for 28 s, until the beat of the newer one had lapsed, and then the floor rose past it all."""
    with ManualCluster(haul("2m")) as cluster:
        cluster.join("old:1:0")
        cluster.turn_to(15_000)
        cluster.cron = haul("3m")
        newer = cluster.join("new:1:0")
        cluster.turn_to(32_000)
        cluster.kill(newer)
        cluster.turn_to(75_000)
    assert sorted(begun.slot for begun in cluster.begun) == list(range(10, 80, 10))
    assert [begun.process for begun in cluster.begun if begun.slot > 32] == ["old:1:0"] * 4
    assert max(begun.at - 1000 * begun.slot for begun in cluster.begun) < 1000


def test_what_fell_due_while_a_dead_version_fired_runs_when_the_old_one_does_again() -> None:
    """Its limits are others, so the old one waits for its beat to lapse; what it tried meanwhile was forgotten."""
    with ManualCluster(haul("2m")) as cluster:
        cluster.join("old:1:0")
        cluster.turn_to(15_000)
        cluster.cron = Cronce("memory:")
        cluster.cron.job(every="10s", name="haul", missed="all", overlap="wait", on_lost="skip")(lambda: None)
        newer = cluster.join("new:1:0")
        cluster.turn_to(32_000)
        cluster.kill(newer)
        cluster.turn_to(95_000)
    assert sorted(begun.slot for begun in cluster.begun) == list(range(10, 100, 10))
    assert {begun.process for begun in cluster.begun if begun.slot > 32} == {"old:1:0"}


# --- a zone of which two machines know other rules ---


def daily() -> Cronce:
    cron = Cronce("memory:")
    cron.job("0 * * * *", name="hourly", tz="Europe/Berlin")(lambda: None)
    return cron


@pytest.mark.slow
def test_of_two_time_zone_databases_only_the_newer_one_s_slots_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daily job ran twice, at 09:05Z and at 09:06Z, on machines whose databases said so."""
    with ManualCluster(daily()) as cluster:
        monkeypatch.setattr("cronce.runtime.declare.rules_of", lambda _tz: "rules-a")
        cluster.join("old:1:0")
        cluster.turn_to(1_800_000)
        monkeypatch.setattr("cronce.runtime.declare.rules_of", lambda _tz: "rules-b")
        newer = cluster.join("new:1:0")
        cluster.turn_to(3 * 3_600_000)
        cluster.kill(newer)
        cluster.turn_to(3 * 3_600_000 + 60_000)
        job = decode_job(cluster.store.load(["job/hourly"]).cells[0].value)
    assert [(begun.slot // 3600, begun.process) for begun in cluster.begun] == [
        (1, "new:1:0"),
        (2, "new:1:0"),
        (3, "new:1:0"),
    ]
    says = "edited: what the time zone database says of Europe/Berlin"
    assert {span.reason for span in job.spans} == {says}


def test_a_version_from_before_rules_were_written_goes_on_and_nothing_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upgrade of cronce writes them, and is no edit: what fell due while nobody looked runs."""
    with ManualCluster(daily()) as cluster:
        monkeypatch.setattr("cronce.runtime.declare.rules_of", lambda _tz: "")
        before = cluster.join("old:1:0")
        cluster.turn_to(1_800_000)
        cluster.kill(before)
        cluster.turn_to(3_900_000)
        monkeypatch.setattr("cronce.runtime.declare.rules_of", lambda _tz: "rules-a")
        cluster.join("new:1:0")
        cluster.turn_to(3_960_000)
        job = decode_job(cluster.store.load(["job/hourly"]).cells[0].value)
    assert [(begun.slot, begun.process) for begun in cluster.begun] == [(3600, "new:1:0")]
    assert (len(job.specs), job.spans) == (2, ())

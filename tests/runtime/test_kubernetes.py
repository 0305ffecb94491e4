"""The runtime on Leases: whoever finds one lapsed has watched it, leaders of client-go and ours respect each other, and
what a Lease cannot keep is refused with that reason."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import time
from typing import Any

import pytest

from cronce import Cronce, Run, Skipped
from cronce.errors import BadPolicy, LockHeld, StoreUnavailable, StoreUnusable
from cronce.model import Cell, Epoch, Slot
from cronce.protocol.commands import Closed, Early, Held
from cronce.protocol.lease import Sample
from cronce.protocol.record import Outcome
from cronce.protocol.terms import Terms
from cronce.protocol.view import NO_TRAITS
from cronce.runtime.client import Knowledge
from cronce.runtime.declare import declare
from cronce.runtime.flow import Timed
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.node import Node
from cronce.stores.base import Loaded
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from tests.house.wait import wait_until
from tests.runtime.office import Office, dies
from tests.runtime.shelf import START, HandClock
from tests.servers.client_go import Elector
from tests.servers.kubernetes import Kubernetes
from tests.stores.forks import Child

LEASE = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)
INDEXER = ("jobs", "cronce-leader-indexer")


class Namespace:
    """A cluster, and processes in it, whose clocks a test turns by hand."""

    def __init__(self) -> None:
        self.hand, self.server, self.stack = HandClock(), Kubernetes(), ExitStack()
        self.server.clock = lambda: self.hand.wall().timestamp()

    def office(self) -> Office:
        """A process that has just begun."""
        store = KubernetesStore(read_url(self.server.url("jobs")), self.hand)
        self.stack.callback(store.close)
        store.clock = self.hand  # type: ignore[attr-defined]
        return Office(store)  # type: ignore[arg-type]

    def spec(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = self.server.get("jobs", name)["spec"]
        return spec


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    namespace = Namespace()
    with namespace.server, namespace.stack:
        yield namespace


@pytest.fixture
def own() -> Iterator[Kubernetes]:
    with Kubernetes() as server:
        yield server


def claim(office: Office, minute: int = 0, **terms: Any) -> Any:
    wanted = Wanted(Slot("billing", START + minute * MINUTE), Terms(LEASE, outside=True)._replace(**terms))
    (answer,) = office.node.do(office.node.ledger.claim([wanted]))
    return answer


def acquire(office: Office, lease: timedelta = LEASE) -> Any:
    return office.node.do(office.node.ledger.acquire("leader/indexer", lease))


# --- slots ----------------------------------------------------------------------------------------------------------


def test_a_slot_runs_once_and_its_lease_says_who_runs_it(namespace: Namespace) -> None:
    job, first, second = declare("billing", "* * * * *"), namespace.office(), namespace.office()
    ran: list[str] = []

    def body(run: Run) -> None:
        spec = namespace.spec("cronce-job-billing")
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (first.node.holder, 1)
        assert spec["leaseDurationSeconds"] == 40
        ran.append(run.key)

    first.call(job, body)
    assert second.call(job, body) == Skipped("closed", "it is closed: succeeded", ran[0], "succeeded")
    assert ran == ["billing@2026-03-29T12:00:00Z"]
    assert namespace.spec("cronce-job-billing")["holderIdentity"] == ""


@pytest.mark.parametrize("verb", ["create", "update", "get"])
def test_whichever_reply_is_lost_a_slot_is_granted_once(namespace: Namespace, verb: str) -> None:
    """Whoever asked finds out by its nonce; the other is told who has it."""
    first, second = namespace.office(), namespace.office()
    lost: list[str] = []

    def lose_first(asked: str, name: str) -> bool:
        if asked != verb or lost or name == "cronce-store":
            return False
        lost.append(name)
        return True

    namespace.server.losing = lose_first
    job = declare("billing", "* * * * *")
    ran: list[str] = []
    for office in (first, second):
        with suppress(StoreUnavailable):  # what is read before anything is claimed is not asked for again
            office.call(job, lambda run: ran.append(run.key))
    assert len(lost) == 1
    assert ran == ["billing@2026-03-29T12:00:00Z"]


def test_who_comes_late_watches_a_whole_lease_before_it_takes_over(namespace: Namespace) -> None:
    """By the server's clock it has lapsed for an hour. But that is not one clock."""
    assert isinstance(claim(namespace.office(), on_lost="rerun"), Grant)
    namespace.hand.turn(3600)
    late = namespace.office()
    for seconds in (*[1.1] * 9, 0.2):
        assert isinstance(claim(late), Held)
        namespace.hand.turn(seconds)
    taken = claim(late)
    assert isinstance(taken, Grant)
    assert (taken.number, taken.fence.number) == (2, 2)


def test_what_is_renewed_while_somebody_watches_is_not_taken_over(namespace: Namespace) -> None:
    office, late = namespace.office(), namespace.office()
    held = claim(office, on_lost="rerun")
    namespace.hand.turn(3600)
    for _ in range(4):
        assert isinstance(claim(late), Held)
        (held,) = office.node.do(office.node.ledger.renew([held]))
        assert isinstance(held, Grant)
        namespace.hand.turn(9)
    assert isinstance(claim(late), Held)


def test_a_run_whose_pod_died_is_lost_and_the_next_slot_waits_for_that(namespace: Namespace) -> None:
    """Each pod is new, and has seen nothing: it must not take the dead one for alive, and skip, for ever."""
    assert isinstance(claim(namespace.office()), Grant)
    namespace.hand.turn(60)
    ran: list[str] = []
    late = namespace.office()
    late.call(declare("billing", "* * * * *", lease="10s"), lambda run: ran.append(run.key), take_over=True)
    assert ran == ["billing@2026-03-29T12:01:00Z"]
    assert late.record(Slot("billing", START)).outcome is Outcome.LOST
    assert 10 <= sum(late.naps) < 13


def test_an_older_slot_that_fails_again_waits_beside_a_newer_one(namespace: Namespace) -> None:
    office = namespace.office()
    first = claim(office, attempts=2)
    office.node.do(office.node.ledger.finish(first, Outcome.FAILED, "boom", timedelta(minutes=5)))
    namespace.hand.turn(60)
    second = claim(office, 1)
    office.node.do(office.node.ledger.finish(second, Outcome.SUCCEEDED))
    namespace.hand.turn(240)
    again = claim(office, attempts=2)
    assert isinstance(again, Grant)
    assert (again.number, again.fence > second.fence) == (2, True)


def test_a_slot_that_is_not_kept_any_more_is_too_old(namespace: Namespace) -> None:
    office = namespace.office()
    for minute in range(5):
        grant = claim(office, minute)
        office.node.do(office.node.ledger.finish(grant, Outcome.SUCCEEDED))
        namespace.hand.turn(60)
    assert claim(namespace.office()) == Closed(
        Outcome.TOO_OLD, "its Lease has no record of slots up to 2026-03-29T12:01:00Z"
    )


def test_who_knew_a_store_that_was_deleted_runs_nothing_again(namespace: Namespace) -> None:
    """A fresh process would take it for new."""
    office = namespace.office()
    office.node.do(office.node.ledger.finish(claim(office), Outcome.SUCCEEDED))
    assert isinstance(acquire(office), Grant)
    for name in namespace.server.names("jobs"):
        namespace.server.delete("jobs", name)
    namespace.hand.turn(2)
    answer = claim(office)
    assert isinstance(answer, Closed)
    assert answer.outcome is Outcome.TOO_OLD
    assert isinstance(acquire(office), Early)
    namespace.hand.turn(60)
    assert isinstance(claim(office, 1), Grant)
    assert isinstance(acquire(office), Grant)


class Death(BaseException):
    """The end of a process, in the middle of a body."""


def test_whatever_befalls_pods_and_replies_no_slot_is_done_twice(namespace: Namespace) -> None:
    """Replies are lost, the server is busy, bodies fail and pods die, API servers disagree, and Leases are deleted."""
    dice, hand, server = random.Random(4), namespace.hand, namespace.server
    job = declare("billing", "* * * * *", lease="10s", retries=1, backoff="5s")
    offices, calm = [namespace.office() for _ in range(3)], True
    server.losing = lambda _verb, _name: not calm and dice.random() < 0.08
    server.clock = lambda: hand.wall().timestamp() + dice.choice((-0.3, 0.0, 0.3))
    done: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    dead: set[str] = set()

    def body(run: Run) -> None:
        assert run.key not in dead
        fate = dice.random()
        if fate < 0.15:
            dead.add(run.key)
            dies(offices[place])
            raise Death
        if fate < 0.25:
            raise ValueError
        done[run.key] += 1

    for _ in range(150):
        place, calm, server.busy = dice.randrange(3), dice.random() < 0.3, dice.choice((0, 0, 0, 0, 1))
        try:
            answer = offices[place].call(job, body, take_over=True)
            seen[answer.kind if isinstance(answer, Skipped) else "done"] += 1
        except (ValueError, StoreUnavailable) as error:
            seen[type(error).__name__] += 1
        except Death:
            calm, server.busy = True, 0
            offices[place] = namespace.office()
        calm, server.busy = True, 0
        if dice.random() < 0.02 and "cronce-job-billing" in server.names("jobs"):
            server.delete("jobs", "cronce-job-billing")
            seen["deleted"] += 1
        hand.turn(dice.choice((0, 0, 1, 5, 20, 40)))
    assert set(done.values()) == {1}
    assert not done.keys() & dead
    assert {"done", "closed", "too old", "held", "ValueError", "StoreUnavailable", "deleted"} <= seen.keys()
    assert dead


def test_of_two_pods_of_one_slot_one_runs_the_command(own: Kubernetes, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    exec_ = [sys.executable, "-m", "cronce", "exec", "report", "--slot", "2026-03-29T12:00:00Z", "--wait", "--"]
    command = [*exec_, "sh", "-c", f"echo ran >> {ran}; sleep 1"]
    env = {**os.environ, "CRONCE_URL": own.url("jobs")}
    pods = [subprocess.Popen(command, env=env, cwd=tmp_path) for _ in range(2)]
    assert [pod.wait(60) for pod in pods] == [0, 0]
    assert ran.read_text() == "ran\n"
    assert own.names("jobs") == ["cronce-job-report", "cronce-store"]


def test_to_guard_and_to_lead_needs_three_rights(own: Kubernetes, cron: Cronce) -> None:
    own.forbidden = {"list", "delete"}
    ran: list[str] = []
    assert cron.job("* * * * *", name="billing")(ran.append)("a") is None
    with cron.lock("reindex"), cron.leader("indexer").elected(wait="1m"):
        assert ran == ["a"]


# --- what a Lease cannot keep ---------------------------------------------------------------------------------------


@pytest.fixture
def cron(own: Kubernetes) -> Iterator[Cronce]:
    with closing(Cronce(own.url("jobs"))) as cron:
        yield cron


@pytest.mark.parametrize("policies", [{"overlap": "allow"}, {"turns": 2}])
def test_runs_side_by_side_are_refused_by_the_guard_and_by_the_scheduler(cron: Cronce, policies: Any) -> None:
    @cron.job("* * * * *", **policies)
    def billing() -> None:
        raise AssertionError

    for begin in (billing, cron.start):
        with pytest.raises(
            BadPolicy, match="kubernetes keeps only the last slots of a job, so its runs cannot overlap"
        ):
            begin()


def test_a_lease_that_is_too_short_for_the_store_is_refused_before_the_scheduler_starts(cron: Cronce) -> None:
    cron.job("* * * * *", name="billing", lease="2s")(lambda: None)
    with pytest.raises(BadPolicy, match="a lease of 2s is too short for kubernetes"):
        cron.start()


def test_effects_and_keys_are_refused_and_not_made(cron: Cronce) -> None:
    made: list[str] = []

    @cron.job("* * * * *", name="billing")
    def billing(run: Run) -> None:
        run.once("pay", made.append, "paid", per="slot")

    @cron.job("* * * * *", name="charging")
    def charging(run: Run) -> None:
        run.on("invoice", 7).once("charge", made.append, "charged")

    @cron.job("* * * * *", name="each")
    def each(run: Run) -> None:
        run.once_each(["7"], on="invoice", key=str, what="charge", fn=made.append, unsure="retry")

    @cron.job("* * * * *", name="syncing")
    def syncing(run: Run) -> None:
        made.extend(run.cursor.over(["7"], at=str))

    @cron.idempotent("mail", key=lambda order: order)
    def mail(order: str) -> None:
        made.append(order)

    with pytest.raises(StoreUnusable, match="for no cursors"):
        syncing()
    made.clear()
    with pytest.raises(StoreUnusable, match=r"for no effects of a slot \(run\.once\)"):
        billing()
    for reached in (charging, each, lambda: mail("7")):
        with pytest.raises(StoreUnusable, match=r"for no effects on things \(run\.on\) or keys \(idempotent\)"):
            reached()
    with pytest.raises(StoreUnusable, match="and no runs by hand"):
        cron.trigger("billing")
    assert made == []


def test_two_schedulers_run_every_slot_once(own: Kubernetes) -> None:
    ran: Counter[datetime] = Counter()

    def tick(run: Run) -> None:
        ran[run.slot.at] += 1

    with closing(Cronce(own.url("jobs"))) as first, closing(Cronce(own.url("jobs"))) as second:
        for cron in (first, second):
            cron.job(every="1s", name="tick", overlap="wait", start_within="1m")(tick)  # however late one comes
            assert cron.start().wait_ready(60)
        wait_until(lambda: len(ran) >= 3)
        assert [first.stop(), second.stop()] == [True, True]
    slots = sorted(ran)
    assert slots == [slots[0] + number * timedelta(seconds=1) for number in range(len(slots))]
    assert set(ran.values()) == {1}


# --- locks and leaders ----------------------------------------------------------------------------------------------


def test_a_scheduler_that_starts_while_the_api_is_away_waits_for_it(own: Kubernetes, tmp_path: Path) -> None:
    """It ended with 75, and was started again and again by the kubelet, each time later."""
    (tmp_path / "app.py").write_text(
        "from cronce import Cronce\ncron = Cronce()\n@cron.job(every='1s')\ndef job():\n    print('ran', flush=True)\n"
    )
    own.busy = 1_000_000
    command = [sys.executable, "-m", "cronce", "run", "app:cron"]
    env = {**os.environ, "CRONCE_URL": own.url("jobs")}
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=-1, text=True) as pod:
        assert pod.stdout
        assert pod.stdout.readline().startswith("cronce run: app:cron on kubernetes://jobs")
        wait_until(lambda: own.busy < 999_997)
        own.busy = 0
        assert pod.stdout.readline() == "ran\n"
        pod.terminate()
        assert pod.wait(60) == 0


def test_exec_is_five_requests(own: Kubernetes, tmp_path: Path) -> None:
    """It was seven or eight: opening, reading and looking for older slots read the store's own Lease each."""
    for slot, most in (("2026-03-29T12:00:00Z", None), ("2026-03-29T12:01:00Z", 5)):
        before = own.requests.total()
        words = ["cronce", "exec", "report", "--schedule", "* * * * *", "--start-within", "9999d", "--slot", slot]
        env = {**os.environ, "CRONCE_URL": own.url("jobs")}
        done = subprocess.run([sys.executable, "-m", *words, "--", "true"], env=env, cwd=tmp_path, check=False)
        assert done.returncode == 0
        assert most is None or own.requests.total() - before == most


def test_the_end_of_a_commands_output_is_in_its_lease_unless_that_is_off(own: Kubernetes, tmp_path: Path) -> None:
    for kept, name in (("", "loud"), ("none", "silent")):
        words = ["cronce", "exec", name, "--slot", "2026-03-29T12:00:00Z", "--", "echo", "the password is 1234"]
        env = {**os.environ, "CRONCE_URL": own.url("jobs"), "CRONCE_OUTPUT": kept}
        done = subprocess.run([sys.executable, "-m", *words], env=env, cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout == b"the password is 1234\n"
    told = {name: str(own.get("jobs", f"cronce-job-{name}")).count("the password is") for name in ("loud", "silent")}
    assert told == {"loud": 1, "silent": 0}


def test_a_lock_is_given_back_as_client_go_gives_back(cron: Cronce, own: Kubernetes) -> None:
    def spec() -> dict[str, Any]:
        found: dict[str, Any] = own.get("jobs", "cronce-lock-reindex")["spec"]
        return found

    with cron.lock("reindex") as lock:
        held = spec()
        assert (held["leaseDurationSeconds"], held["leaseTransitions"], lock.fence.number) == (30, 1, 1)
        with pytest.raises(LockHeld, match=held["holderIdentity"]), cron.lock("reindex"):
            pass
    free = spec()
    assert (free["holderIdentity"], free["leaseDurationSeconds"], free["leaseTransitions"]) == ("", 1, 1)
    assert free["renewTime"] == free["acquireTime"]
    with cron.lock("reindex", at_least="20s") as lock:
        assert lock.fence.number == 2
    assert spec()["holderIdentity"] != ""  # it rests: nobody may have it yet
    assert 18 <= spec()["leaseDurationSeconds"] <= 20


def test_a_candidate_of_client_go_waits_for_ours_and_takes_over_from_the_dead(namespace: Namespace) -> None:
    ours, hand = namespace.office(), namespace.hand
    theirs = Elector(namespace.server, INDEXER, "go-1", hand.boot)
    held = acquire(ours)
    for _ in range(5):
        theirs.step()
        (held,) = ours.node.do(ours.node.ledger.renew([held]))
        hand.turn(2.5)
    for _ in range(3):
        theirs.step()
        assert not theirs.leads
        hand.turn(2.5)
    hand.turn(2.5)
    theirs.step()
    assert (theirs.leads, theirs.term) == (True, 2)
    (lost,) = ours.node.do(ours.node.ledger.renew([held]))
    assert not isinstance(lost, Grant)


def test_ours_waits_for_a_leader_of_client_go_and_takes_over_from_the_dead(namespace: Namespace) -> None:
    """What stands in the annotations from an earlier term of ours is not believed."""
    ours, hand = namespace.office(), namespace.hand
    before = acquire(ours)
    ours.node.do(ours.node.ledger.release([before]))
    theirs = Elector(namespace.server, INDEXER, "go-1", lambda: hand.wall().timestamp() + 86_400)  # a day ahead
    theirs.step()
    assert theirs.leads
    held = acquire(ours)
    assert isinstance(held, Held)
    assert held.by == "go-1"
    hand.turn(14.9)
    assert isinstance(acquire(ours), Held)
    hand.turn(0.2)
    taken = acquire(ours)
    assert isinstance(taken, Grant)
    assert (taken.fence.number, theirs.term, before.fence.number) == (3, 2, 1)
    theirs.step()
    assert namespace.spec(INDEXER[1])["holderIdentity"] == ours.node.holder


def test_what_client_go_made_or_gave_back_is_ours_at_once(namespace: Namespace) -> None:
    ours = namespace.office()
    theirs = Elector(namespace.server, INDEXER, "go-1", namespace.hand.boot)
    theirs.step()
    assert isinstance(acquire(ours), Held)
    theirs.release()
    taken = acquire(ours)
    assert isinstance(taken, Grant)
    ours.node.do(ours.node.ledger.release([taken]))
    namespace.hand.turn(2)
    theirs.step()
    assert (theirs.leads, theirs.term) == (True, 2)
    theirs.release()
    assert isinstance(acquire(ours), Grant)


def test_a_stranger_of_the_same_name_is_a_stranger(namespace: Namespace) -> None:
    """What we wrote counts only in the term that we wrote it in."""
    ours = namespace.office()
    old = acquire(ours)
    namespace.server.edit(*INDEXER, lambda lease: lease["spec"].update(leaseTransitions=2))
    (answer,) = ours.node.do(ours.node.ledger.renew([old]))
    assert not isinstance(answer, Grant)
    assert isinstance(acquire(ours), Held)


def test_fences_rise_also_when_somebody_deletes_the_lease(namespace: Namespace) -> None:
    ours = namespace.office()
    first = acquire(ours)
    namespace.server.delete(*INDEXER)
    namespace.hand.turn(1)
    second = acquire(ours)
    assert (first.fence.number, second.fence.number) == (1, 1)
    assert str(second.fence) > str(first.fence)


def test_fences_rise_also_when_somebody_counts_no_transitions(namespace: Namespace) -> None:
    ours = namespace.office()
    for _ in range(3):
        before = acquire(ours)
        ours.node.do(ours.node.ledger.release([before]))
    namespace.server.edit(*INDEXER, lambda lease: lease.update(spec={"holderIdentity": ""}))
    after = acquire(ours)
    assert (before.fence.number, after.fence.number) == (3, 4)


def test_a_cell_is_watched_from_when_its_version_was_first_seen() -> None:
    hand = HandClock()
    know, cells = Knowledge(hand, NO_TRAITS._replace(one_clock=False)), [Cell("a", 7), Cell("a", 7), Cell("a", 8)]
    for cell in cells:
        know.learn(Timed(Loaded(START, Epoch(1), [cell]), hand.boot() - 1, hand.boot()))
        hand.turn(10)
    now = Sample(hand.boot() - 1, hand.boot(), START)
    assert know.watched(cells[2], now, LEASE) == timedelta(seconds=9)
    assert know.watched(cells[0], now, LEASE) == know.watched(Cell("b", 7), now, LEASE) == timedelta(0)


def test_who_gives_back_what_another_has_by_now_changes_nothing(namespace: Namespace) -> None:
    ours, hand = namespace.office(), namespace.hand
    old = acquire(ours)
    theirs = Elector(namespace.server, INDEXER, "go-1", hand.boot, retry=0)
    theirs.step()
    hand.turn(20)
    theirs.step()
    assert theirs.leads
    before = namespace.server.get(*INDEXER)
    ours.node.do(ours.node.ledger.release([old]))
    assert namespace.server.get(*INDEXER) == before


def test_a_length_that_is_no_whole_number_of_seconds_is_rounded_up(namespace: Namespace) -> None:
    assert isinstance(acquire(namespace.office(), timedelta(seconds=4, milliseconds=1)), Grant)
    assert namespace.spec(INDEXER[1])["leaseDurationSeconds"] == 5


class Ours:
    """A candidate of ours that acts when it is told to, with a clock that runs at a pace of its own."""

    def __init__(self, namespace: Namespace, pace: float) -> None:
        self.namespace, self.pace, self.renewed = namespace, pace, 0.0
        self.wall, self.synchronised = namespace.hand.wall, namespace.hand.synchronised
        store = KubernetesStore(read_url(namespace.server.url("jobs")), self)
        namespace.stack.callback(store.close)
        self.node = Node(store, self, lambda: store, lambda _event: None)
        self.grant: Grant | None = None

    def boot(self) -> float:
        return self.namespace.hand.boot() * self.pace

    @property
    def leads(self) -> bool:
        return self.grant is not None and self.grant.trust.holds(self.boot())

    @property
    def term(self) -> int:
        return self.grant.fence.number if self.grant else 0

    def step(self) -> None:
        if self.grant is None:
            answer = self.node.do(self.node.ledger.acquire("leader/indexer", LEASE))
        elif self.boot() - self.renewed > 2:
            (answer,) = self.node.do(self.node.ledger.renew([self.grant]))
        else:
            return
        self.renewed = self.boot()
        self.grant = answer if isinstance(answer, Grant) else None

    def release(self) -> None:
        if self.grant is not None:
            self.node.do(self.node.ledger.release([self.grant]))
        self.grant = None


def test_of_candidates_of_both_kinds_one_leads_whatever_befalls_them(namespace: Namespace) -> None:
    """Crashes, pauses and resignations, clocks that run at other paces, and API servers that are seconds apart."""
    dice, hand, server = random.Random(4), namespace.hand, namespace.server
    server.clock = lambda: hand.wall().timestamp() + dice.choice((-2.0, 0.0, 2.0))
    born = 0

    def candidate(kind: str) -> Ours | Elector:
        nonlocal born
        born, pace = born + 1, dice.uniform(0.97, 1.03)
        if kind == "ours":
            return Ours(namespace, pace)
        clock = lambda: hand.boot() * pace  # noqa: E731
        return Elector(server, INDEXER, f"go-{born}", clock, lease=8, deadline=5, retry=1)

    crew = [candidate(kind) for kind in ("ours", "theirs", "ours", "theirs")]
    changes: Counter[tuple[str, str, str]] = Counter()
    terms: list[int] = []
    last, how = "", "begun"
    for _ in range(2000):
        hand.turn(dice.uniform(0.1, 1.2))
        place = dice.randrange(4)
        kind = "ours" if isinstance(crew[place], Ours) else "theirs"
        leads, fate = crew[place].leads, dice.random()
        if fate < 0.02 + 0.06 * leads:
            crew[place], how = candidate(kind), "crash" if leads else how
        elif fate < 0.16 and leads:
            crew[place].release()
            how = "release"
        elif fate < 0.05:
            hand.turn(dice.uniform(5, 20))  # everybody sleeps
        else:
            crew[place].step()
        leading = [one for one in crew if one.leads]
        assert len(leading) <= 1
        if leading and leading[0].term not in terms:
            now = "ours" if isinstance(leading[0], Ours) else "theirs"
            changes[last, how, now] += 1
            terms.append(leading[0].term)
            last, how = now, "lapse"
    assert terms == sorted(terms)
    assert {("ours", "crash", "theirs"), ("theirs", "crash", "ours")} <= changes.keys()
    assert {("ours", "release", "theirs"), ("theirs", "release", "ours")} <= changes.keys()


def test_processes_of_ours_and_client_go_hand_over_after_a_kill_and_after_a_release(own: Kubernetes) -> None:
    def lead(me: Child) -> None:
        leader = Cronce(own.url("jobs")).leader("indexer", lease="4s")
        with leader.elected(wait="60s") as term:
            me.say(term.fence.number)
            me.wait()
        me.say("left")

    def led() -> bool:
        theirs.step()
        return theirs.leads

    first, theirs = Child(lead), Elector(own, INDEXER, "go-1", time, lease=2, deadline=1.2, retry=0.2)
    assert first.hear() == 1
    sighted = time()
    theirs.step()
    first.kill()
    first.end()
    wait_until(led)
    assert (theirs.term, time() - sighted >= 3.9) == (2, True)
    killed, second = time(), Child(lead)  # nobody takes theirs' steps any more
    assert second.hear() == 3
    assert time() - killed >= 1.9
    second.go()
    assert second.hear() == "left"
    second.end()
    theirs = Elector(own, INDEXER, "go-2", time, lease=30, deadline=20, retry=0.2)
    theirs.step()
    assert (theirs.leads, theirs.term) == (True, 4)
    theirs.release()
    third = Child(lead)
    assert third.hear() == 5
    third.go()
    assert third.hear() == "left"
    third.end()

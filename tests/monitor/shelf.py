"""A store whose clock a test turns, schedulers that beat as they are told, and somebody who watches."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from cronce.model import Mark, Slot, Traits, Write
from cronce.monitor.alerts import AlertKind
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Survey, WatcherState, WatchMemory, survey
from cronce.monitor.watch import judge
from cronce.protocol.notices import Alert, Holder
from cronce.protocol.record import Outcome
from cronce.protocol.specs import declared
from cronce.protocol.terms import Terms
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.stores.base import Page, Scan
from tests.runtime.shelf import DURABLE, LEASE, HandClock, HandNode, Wire

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Shelf(Wire):
    """Scans are counted, too."""

    def scan(self, scan: Scan) -> Page:
        return self._through(f"scan {scan.prefix}", lambda: super(Shelf, self).scan(scan))


class Town:
    def __init__(self, traits: Traits = DURABLE, settings: Settings | None = None) -> None:
        self.clock = HandClock()
        self.store = Shelf(self.clock, traits)
        self.settings = settings or Settings()
        self.known, self.memory = WatcherState(), WatchMemory()
        self.nodes: dict[str, HandNode] = {}
        self.carried: dict[str, list[Declaration]] = {}

    @property
    def now(self) -> datetime:
        return self.clock.wall()

    def node(self, name: str = "web-1:1:a") -> HandNode:
        return self.nodes.setdefault(name, HandNode(self.store, name))

    @property
    def hand(self) -> Operator:
        return Operator(self.node().ledger, "ada")

    def pass_time(self, span: timedelta) -> None:
        self.clock.turn(span.total_seconds())

    def watch_clock(self, span: timedelta) -> None:
        """Time passes, and everybody looks at the store's clock, so that a lease that lapsed is believed to have."""
        for _ in range(int(span.total_seconds())):
            self.clock.turn(1.0)
            for node in self.nodes.values():
                node.do(node.ledger.overdue())
                node.do(node.ledger.client.probe())

    # --- schedulers ---

    def beat(self, name: str = "web-1:1:a", *jobs: Declaration, **said: Any) -> None:
        """A scheduler says that it is alive, and carries these jobs."""
        node = self.node(name)
        self.carried[name] = list(jobs) or self.carried.get(name, [])
        specs = {job.name: job.spec for job in self.carried[name]}
        code = {job.name: job.code for job in self.carried[name] if job.code}
        holder = Holder(name, digest_of(specs, code), "both", 1, {}, said.pop("since", self.now), "")._replace(**said)
        roster = Roster(node.ledger.client, node.ledger.jobs)
        node.do(roster.beat(holder, specs, 0.0, code=code))
        if holder.gone:
            node.do(roster.leave(holder))

    def run(
        self,
        job: Declaration,
        at: datetime,
        outcome: Outcome | None = Outcome.SUCCEEDED,
        *,
        took: timedelta = timedelta(0),
        by: str = "web-1:1:a",
        **terms: Any,
    ) -> Grant:
        """A slot is run to that end; None: it goes on."""
        node = self.node(by)
        wanted = Wanted(Slot(job.name, at), Terms(LEASE, overlap="allow", digest=job.spec[0])._replace(**terms))
        (grant,) = node.do(node.ledger.claim([wanted]))
        assert isinstance(grant, Grant), grant
        self.pass_time(took)
        if outcome is not None:
            node.do(node.ledger.finish(grant, outcome, "boom" if outcome is Outcome.FAILED else ""))
        return grant

    def name(self, job: Declaration) -> None:
        """A call from outside says by which schedule it comes."""
        jobs = self.node().ledger.jobs
        self.node().do(jobs.edit(job.name, lambda known, now: known and declared(known, job.spec, now)))

    # --- watching ---

    def survey(self) -> Survey:
        return drive(survey(self.known, self.store.traits), self.store, self.clock)

    def look(self) -> list[Alert]:
        found, self.memory = judge(self.survey(), self.memory, self.settings)
        return found

    def kinds(self) -> list[str]:
        """What is wrong, with what: without the words."""
        return sorted(one.id for one in self.look())

    def the(self, kind: AlertKind) -> Alert:
        """The only one of its kind."""
        (finding,) = [one for one in self.look() if one.kind is kind]
        return finding

    def put(self, key: str, value: str, mark: Mark = Mark.FREE, ttl: timedelta | None = None) -> None:
        """Something stands in a cell, whatever was there."""
        (cell,) = self.store.load([key]).cells
        write = Write(key, cell.version, value, mark, ttl=ttl)
        assert self.store.swap([write], self.store.load([]).epoch.seen).verdicts[0].refused is None

    def fresh(self) -> Sequence[str]:
        """What somebody sees who comes just now, and remembers nothing."""
        found, _ = judge(
            drive(survey(WatcherState(), self.store.traits), self.store, self.clock), WatchMemory(), self.settings
        )
        return sorted(one.id for one in found)


def every(span: str = "1m", name: str = "billing", **policies: Any) -> Declaration:
    return declare(name, every=span, **policies)

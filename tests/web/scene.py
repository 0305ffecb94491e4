"""A store as a busy week leaves it: for the page, the timeline, the API and what they read by.

`fill(store)` writes it relative to the store's now, so that what runs is running and what is late is late. `HOSTILE`
stands wherever somebody else chooses the text, so that every page that shows the scene is tried on it as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from cronce.model import (
    FREE,
    MONITOR,
    Fence,
    Instant,
    Mark,
    Slot,
    Write,
    alert_cell,
    beat_cell,
    bundle_cells,
    effect_cells,
    holder_cell,
    job_cell,
    leader_cell,
    lock_cell,
    observed_cell,
    once_cell,
    refusals_cell,
    spell,
)
from cronce.protocol.notices import (
    Alert,
    Beats,
    Bundle,
    Delivery,
    Doubled,
    Holder,
    LastBeat,
    Observed,
    Refusals,
    Refused,
    encode_notice,
)
from cronce.protocol.record import (
    LAPSED,
    Act,
    Job,
    Maker,
    Outcome,
    Past,
    Record,
    SpanRecord,
    Spec,
    State,
    encode,
    encode_job,
)
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores.base import Store

HOSTILE: Final = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;{{7*7}}"
"""What a page must show as it stands, and never do."""

WEB_1, WEB_2, WEB_3, BATCH = "web-1:4711:9c1f", "web-2:812:77ab", "web-3:90:e02d", "batch-1:33:5d10"
"""Web-1 and batch-1 live; web-2 died a minute ago; web-3 missed its last beats."""

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SECOND: Final = timedelta(seconds=1)
REFUSED: Final = {"web-2": 5, "web-3": 2}
"""How often each host was refused a slot of order-sync."""

JOBS: Final[Mapping[str, Declaration]] = {
    one.name: one
    for one in (
        declare("billing", "0 2 * * *", tz="Europe/Berlin", timeout="1h"),
        declare("order-sync", every="15m", on_lost="rerun", retries=3, timeout="10m"),
        declare("invoice-mail", every="5m", retries=2),
        declare("daily-report", "30 1 * * *", tz="America/New_York", fold="both"),
        declare("thumbnails", "*/10 * * * *", overlap="skip"),
        declare("cleanup", "0 4 * * 0", missed="all"),
        declare("ledger-export", "@hourly"),
        declare("probe", every="1m", lease="30s"),
        declare("reindex", "0 */6 * * *", tz="America/Argentina/ComodRivadavia", start="2020-01-01T00:00:00Z"),
    )
}
ABANDONED: Final = "ledger-export"
"""No live scheduler has this job."""


class Scene:
    """What was written, and when: tests ask it instead of repeating it."""

    def __init__(self, now: Instant, birth: int) -> None:
        self.now, self._birth, self._fence = now, birth, 0
        self.running = self.slot("order-sync", 0)
        self.lost = Slot("billing", JOBS["billing"].schedule.previous(now - DAY))  # type: ignore[union-attr, arg-type]
        self.taken_over = self.slot("order-sync", 2)
        self.failed = self.slot("invoice-mail", 1)
        self.unknown = self.slot("thumbnails", 3)
        self.doubled = self.slot("thumbnails", 1)
        self.stuck = self.slot("reindex", 0)
        self.by_hand = Slot("daily-report", (now - 3 * HOUR).replace(microsecond=0), "t-0badcafe")
        self.doubt = f"{self.doubled.key}/mail:<b>{1042}</b>"

    def slot(self, job: str, back: int) -> Slot:
        """The latest slot of a job that is due, or one so many before it."""
        rule, at = JOBS[job].schedule, self.now
        assert rule is not None
        for _ in range(back + 1):
            earlier = rule.previous(at)
            assert earlier is not None
            at = earlier
        return Slot(job, at)

    def fence(self) -> Fence:
        """A grant that was made before: fences of the cells themselves are drawn by the store."""
        self._fence += 1
        return Fence(self._birth, self._fence)

    def cells(self) -> Iterator[Write]:
        yield from self._jobs()
        yield from self._holders()
        yield from self._runs()
        yield from self._effects()
        yield from self._leases()
        yield from self._notices()

    # --- who and what ---

    def _jobs(self) -> Iterator[Write]:
        for name, job in JOBS.items():
            digest, text = job.spec
            specs = [Spec(digest, self.now - 20 * DAY, text)]
            spans: tuple[SpanRecord, ...] = ()
            paused = (
                Act(f"ana@laptop {HOSTILE}", self.now - 2 * HOUR, "the disk is full") if name == "cleanup" else None
            )
            if name == ABANDONED:
                old = declare(name, "30 * * * *").spec
                specs.insert(0, Spec(old[0], self.now - 30 * DAY, old[1]))
                spans = (SpanRecord(self.now - 20 * DAY, self.now - 20 * DAY + HOUR, 1, "edited"),)
            record = Job(self.now - 30 * DAY, paused, tuple(specs), digest, spans)
            yield _write(job_cell(name), encode_job(record), Mark.FREE)

    def _holders(self) -> Iterator[Write]:
        carried = {name: job.spec[0] for name, job in JOBS.items() if name != ABANDONED}
        yield _write(f"{bundle_cells('b1')}000", encode_notice(Bundle(carried)), Mark.FREE, HOUR)
        beats = {WEB_1: (0.4, 0), WEB_2: (55.0, 0), WEB_3: (6.0, 1.7), BATCH: (0.8, -0.02)}
        for number, (name, (ago, skew)) in enumerate(beats.items()):
            labels = {"zone": "eu-1", "note": HOSTILE} if name == BATCH else {"zone": f"eu-{number}"}
            role = "work" if name == BATCH else "both"
            since = self.now - DAY + number * MINUTE
            holder = Holder(
                name,
                "b1",
                role,
                8,
                labels,
                since,
                "1.0.0",
                draining=name == BATCH,
                every=SECOND if name == WEB_3 else 10 * SECOND,
                skew=skew * SECOND,
                running=1 if name == WEB_1 else 0,
            )
            yield _write(holder_cell(name), encode_notice(holder), Mark.OPEN, HOLDER_TTL - ago * SECOND)

    # --- runs ---

    def _runs(self) -> Iterator[Write]:
        yield from self._history("probe", 60, WEB_1, 2.0)
        yield from self._history("order-sync", 12, WEB_1, 71.0, leave=(0, 2))
        yield from self._history("thumbnails", 8, BATCH, 33.0, leave=(3,))
        yield from self._history("billing", 4, WEB_2, 1840.0, leave=(1,))
        yield from self._history("ledger-export", 3, WEB_2, 12.0)
        yield _run(
            self.running,
            self._record(
                WEB_1, self.running.at, None, State.RUNNING, progress=(412, 1000), on_lost="rerun", attempts=4
            ),
            30 * SECOND,
        )
        yield _run(self.stuck, self._record(WEB_2, self.stuck.at, None, State.RUNNING), -3 * MINUTE)
        yield _run(
            self.lost,
            self._record(WEB_2, self.lost.at, 6 * MINUTE, outcome=Outcome.LOST, reason="web-2 was gone"),
        )
        yield _run(self.taken_over, self._took_over())
        yield _run(self.failed, self._failed())
        yield _run(
            self.unknown,
            self._record(WEB_1, self.unknown.at, MINUTE, outcome=Outcome.UNKNOWN, reason="the store forgot"),
        )
        asked = self._record(WEB_1, self.by_hand.at, 4 * SECOND, outcome=Outcome.SUCCEEDED, by=f"ben {HOSTILE}")
        yield _run(self.by_hand, asked._replace(payload='{"who":"<b>all</b>"}', output="sent 3 reports\n"))
        skipped = Record(State.CLOSED, outcome=Outcome.SKIPPED, reason="too late to start", finished=self.now - HOUR)
        yield _run(self.slot("daily-report", 0), skipped)
        yield from self._refusals()

    def _history(
        self, job: str, number: int, holder: str, seconds: float, leave: Iterable[int] = ()
    ) -> Iterator[Write]:
        for back in range(number):
            if back not in leave:
                one = self.slot(job, back)
                took = (seconds + (back * 7 % 5) * seconds / 10) * SECOND
                record = self._record(holder, one.at, took, outcome=Outcome.SUCCEEDED)
                yield _run(one, record._replace(output=f"{back} done\n" if back == 0 else ""))

    def _record(
        self, holder: str, at: Instant, took: timedelta | None, state: State = State.CLOSED, **more: Any
    ) -> Record:
        started = min(at + timedelta(milliseconds=180), self.now)
        ended = min(started + took, self.now) if took is not None else None
        return Record(state, 1, "n", holder, 30 * SECOND, started=started, finished=ended, **more)

    def _took_over(self) -> Record:
        at = self.taken_over.at
        past = Past(self.fence(), WEB_2, at + SECOND, LAPSED, at + 33 * SECOND)
        record = self._record(WEB_1, at + 33 * SECOND, 80 * SECOND, outcome=Outcome.SUCCEEDED, on_lost="rerun")
        return record._replace(grant=2, past=(past,), attempts=4)

    def _failed(self) -> Record:
        at = self.failed.at
        past = Past(self.fence(), WEB_1, at + SECOND, "failed: SMTPServerDisconnected", at + 3 * SECOND)
        record = self._record(WEB_3, at + 4 * SECOND, 2 * SECOND, outcome=Outcome.FAILED, attempts=3, failures=2)
        reason = f"SMTPAuthenticationError: (535) {HOSTILE}"
        output = "\n".join([*(f"line {number} of the log" for number in range(40)), HOSTILE])
        return record._replace(grant=2, past=(past,), reason=reason, output=output)

    def _refusals(self) -> Iterator[Write]:
        for holder, (host, times) in zip((WEB_2, WEB_3), REFUSED.items(), strict=True):
            recent = (
                Refused(self.taken_over.key, self.taken_over.at + SECOND, f"{holder}: held by {WEB_1}"),
                Refused(self.running.key, self.running.at + SECOND, f"{holder}: {HOSTILE}"),
            )
            yield _write(refusals_cell("order-sync", host), encode_notice(Refusals(times, recent)), Mark.FREE, DAY)

    # --- effects ---

    def _effects(self) -> Iterator[Write]:
        run = Maker(self.doubled.cell, self.fence())
        prefix = effect_cells(self.doubled.key)
        doubt = Record(State.CLOSED, 1, holder=BATCH, started=self.doubled.at, outcome=Outcome.UNKNOWN, under=run)
        gone = f"its run is over {HOSTILE}"
        yield _write(
            f"{prefix}mail:<b>1042</b>", encode(doubt._replace(reason=gone)), Mark.ATTENTION, at=self.doubled.at
        )
        done = Record(State.CLOSED, 1, holder=BATCH, started=self.doubled.at, outcome=Outcome.SUCCEEDED, under=run)
        for number in range(3):
            yield _write(f"{prefix}mail:{number}", encode(done), Mark.CLOSED, at=self.doubled.at)
        now = Record(State.RUNNING, 1, holder=WEB_1, started=self.now)
        yield _write(once_cell("order-email", "42"), encode(now), Mark.OPEN, MINUTE)

    # --- locks and leaders ---

    def _leases(self) -> Iterator[Write]:
        held = Record(State.RUNNING, 3, holder=WEB_1, started=self.now - 4 * MINUTE)
        past = Past(self.fence(), WEB_2, self.now - HOUR, "released", self.now - 50 * MINUTE)
        yield _write(lock_cell("reindex"), encode(held._replace(past=(past,))), Mark.OPEN, 20 * SECOND, grant=True)
        yield _write(lock_cell("vacuum"), encode(Record(State.DUE, 1, past=(past,))), Mark.FREE)
        led = held._replace(past=tuple(past._replace(holder=name, end=LAPSED) for name in (WEB_2, WEB_3)))
        yield _write(leader_cell("indexer"), encode(led), Mark.OPEN, 20 * SECOND, grant=True)
        yield _write(leader_cell(MONITOR), encode(held), Mark.OPEN, 20 * SECOND, grant=True)

    # --- what watchers leave ---

    def _notices(self) -> Iterator[Write]:
        sent = {"4f1c": Delivery("raised", self.now - 50 * SECOND, self.now)}
        failed_at = self.now - 3 * MINUTE
        remedy = f"`cronce why invoice-mail` has more; {HOSTILE}"
        alerts = (
            Alert("gone", WEB_2, "critical", f"{WEB_2} has not beaten for 55s.", self.now - 50 * SECOND, None, 1, sent),
            Alert("lost", "billing", "critical", f"{self.lost.key} is lost. Look, then resolve it.", self.now - DAY),
            Alert("failed", "invoice-mail", "warning", f"It failed: {HOSTILE}", failed_at, None, 4, {}, remedy),
            Alert("skew", "web-3", "info", "The clock of web-3 is 1.7s ahead.", self.now - HOUR),
            Alert("late", "probe", "warning", "It started 70s late.", self.now - HOUR, self.now - 40 * MINUTE, 2, sent),
        )
        for one in alerts:
            mark = Mark.FREE if one.cleared else Mark.OPEN
            yield _write(alert_cell(one.kind, one.subject), encode_notice(one), mark)
        beats = tuple(LastBeat(self.now - n * 30 * SECOND, f"old-box-{n % 2} {HOSTILE}") for n in range(6, 0, -1))
        yield _write(beat_cell("quartz-prod"), encode_notice(Beats(MINUTE, beats, 340)), Mark.OPEN, HOUR)
        silent = (LastBeat(self.now - 3 * HOUR, "legacy-cron"),)
        yield _write(beat_cell("legacy-cron"), encode_notice(Beats(15 * MINUTE, silent, 91)), Mark.OPEN, HOUR)
        doubled = Doubled(
            spell(self.now - HOUR), self.now - HOUR + SECOND, f"app-2 {HOSTILE}", "app-1 ran it 0.2s before"
        )
        calls = (LastBeat(self.now - HOUR, "app-1"), LastBeat(self.now - HOUR + SECOND, "app-2"))
        seen = Observed(10 * SECOND, calls, 482, 1, (doubled,))
        yield _write(observed_cell("newsletter"), encode_notice(seen), Mark.FREE, DAY)


def fill(store: Store) -> Scene:
    """Write the scene into an empty store."""
    loaded = store.load([])
    scene = Scene(loaded.now, loaded.epoch.birth)
    swapped = store.swap(list(scene.cells()), loaded.epoch.seen)
    assert [one for one in swapped.verdicts if one.refused] == []
    return scene


def _write(
    key: str, value: str, mark: Mark, ttl: timedelta | None = None, at: Instant | None = None, *, grant: bool = False
) -> Write:
    return Write(key, FREE, value, mark, at, grant, ttl)


def _run(slot: Slot, record: Record, ttl: timedelta | None = None) -> Write:
    doubtful = record.outcome in (Outcome.LOST, Outcome.UNKNOWN)
    mark = Mark.OPEN if record.state is not State.CLOSED else Mark.ATTENTION if doubtful else Mark.CLOSED
    return _write(slot.cell, encode(record), mark, ttl, slot.due or slot.at, grant=bool(record.grant))


REPORT: Final[dict[str, object]] = {
    "findings": [
        {
            "rule": "CR101",
            "name": "no-lock",
            "severity": severity,
            "confidence": "high",
            "path": f"src/jobs/{severity}.py",
            "line": 12,
            "column": 1,
            "message": f"every replica runs this job {HOSTILE}",
            "remedy": "declare it with @cron.job",
            "snippet": "scheduler.add_job(sync, 'interval', minutes=15)",
            "fingerprint": "0",
        }
        for severity in ("error", "warning", "info")
    ],
    "unparsed": [],
    "suppressed": [],
    "gone": [],
    "files": 41,
}
"""What `cronce audit --format json` prints."""

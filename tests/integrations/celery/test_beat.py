"""Our scheduler in this process, over a real broker: what it sends, and when it does not."""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import BaseSchedule, crontab

from cronce import At, Cronce
from cronce.errors import BadPolicy
from cronce.integrations.celery import Scheduler
from cronce.integrations.celery.beat import task_id
from cronce.model import slot
from cronce.testing.manual_time import ManualClock
from tests.house.wait import wait_until
from tests.integrations.celery.shop import gapless, instants
from tests.servers.valkey import DURABLE, Valkey

SECOND = timedelta(seconds=1)


class Office:
    """An app of its own, with a queue of its own; its beat is in this process."""

    def __init__(self, broker: Valkey, queue: str, store: str, entries: dict[str, Any], **conf: object) -> None:
        self.broker, self.queue = broker, queue
        self.app = Celery("office", broker=broker.url, set_as_current=False)
        self.app.conf.update(cronce_url=store, beat_schedule=entries, task_default_queue=queue, **conf)
        self.beat = Scheduler(self.app)

    def sent(self) -> list[dict[str, Any]]:
        """The messages, oldest first."""
        return [json.loads(text) for text in reversed(self.broker.cli("LRANGE", self.queue, 0, -1))]

    def keys(self) -> list[str]:
        return [one["headers"]["cronce_slot"] for one in self.sent()]

    def slots(self, name: str) -> list[datetime]:
        return sorted(instants([key for key in self.keys() if key.startswith(f"office:{name}@")]))

    def close(self) -> None:
        self.beat.close()
        self.app.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def offices() -> Iterator[list[Office]]:
    made: list[Office] = []
    yield made
    for office in made:
        office.close()


def entry(schedule: object, **more: object) -> dict[str, object]:
    return {"task": "note", "schedule": schedule, **more}


def test_a_message_is_as_celery_would_send_it_but_for_its_id_which_is_the_slots(
    valkey: Valkey, store: str, tmp_path: Path, offices: list[Office]
) -> None:
    options = {"queue": tmp_path.name, "expires": 600, "priority": 3, "headers": {"tenant": "seven"}}
    made = entry(1, args=[1, BeatLazyFunc(lambda: 2)], kwargs={"three": BeatLazyFunc(lambda: 3)}, options=options)
    offices.append(office := Office(valkey, "elsewhere", store, {"tick": made}))
    office.queue = tmp_path.name + "\x06\x163"  # how Celery names the queue of a priority
    office.beat.tick()
    wait_until(office.sent)
    headers = office.sent()[0]["headers"]
    (at,) = instants([headers["cronce_slot"]])
    assert headers["id"] == task_id(slot("office:tick", at))
    assert (headers["task"], headers["tenant"], headers["celery_beat_task"]) == ("note", "seven", True)
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("[1, 2]", "{'three': 3}")
    assert (
        timedelta(0) <= datetime.fromisoformat(headers["expires"]) - timedelta(seconds=600) - at < timedelta(minutes=1)
    )


def test_the_id_of_a_slot_never_changes() -> None:
    """A beat of another version may have sent the same slot."""
    assert task_id(slot("shop:tick", datetime(2026, 3, 29, 1, tzinfo=UTC))) == "6ed28d31-3db8-574a-871f-09169cc74dea"


def test_a_beat_that_starts_anew_goes_on_with_what_was_sent_and_sends_the_latest_that_was_missed(
    valkey: Valkey, store: str, tmp_path: Path, offices: list[Office]
) -> None:
    every = SECOND
    offices.append(first := Office(valkey, tmp_path.name, store, {"tick": entry(every)}))
    first.beat.tick()
    wait_until(lambda: first.slots("tick"))
    first.beat.close()
    *earlier, before = first.slots("tick")
    wait_until(lambda: time.time() - before.timestamp() > 2.1)  # one is missed, and one is the latest

    def latest() -> datetime:
        return before + (datetime.now(UTC) - before) // every * every

    offices.append(second := Office(valkey, tmp_path.name, store, {"tick": entry(every)}))
    earliest = latest()
    second.beat.tick()
    wait_until(lambda: len(second.slots("tick")) > len(earlier) + 1)
    assert earliest <= second.slots("tick")[len(earlier) + 1] <= latest()  # the same, unless time went on meanwhile

    def later() -> list[datetime]:
        return second.slots("tick")[len(earlier) + 1 :]

    # It goes on; where it stood still for longer than from one slot to the next, one more is missed.
    wait_until(lambda: any(after - at == every for at, after in pairwise(later())))
    second.beat.close()
    assert second.slots("tick")[: len(earlier) + 1] == [*earlier, before]
    assert max(Counter(second.slots("tick")).values()) == 1
    assert {(at - before) % every for at in later()} == {timedelta(0)}


class Broken(BaseSchedule):  # type: ignore[misc]  # Celery has no types
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise ZeroDivisionError("no moon")


def test_entries_come_and_go_while_it_runs_and_one_that_has_no_slots_is_named_once(
    valkey: Valkey, store: str, tmp_path: Path, offices: list[Office], caplog: pytest.LogCaptureFixture
) -> None:
    entries = {"tick": entry(1), "often": entry(0.5), "broken": entry(Broken()), "by hand": entry(timedelta(days=900))}
    offices.append(office := Office(valkey, tmp_path.name, store, entries))
    office.beat.tick()
    wait_until(lambda: office.slots("tick"))
    office.beat.add(name="later", task="note", schedule=1)
    del office.beat.schedule["tick"]
    office.beat.tick()
    wait_until(lambda: office.slots("later"))
    with Cronce(store) as cron:
        asked = cron.trigger("office:by-hand-30666808")
    wait_until(lambda: office.keys().count(asked))
    wait_until(lambda: len(office.slots("later")) > 1)
    assert max(office.slots("tick")) <= min(office.slots("later"))
    assert office.keys().count(asked) == 1
    assert sorted(record.message for record in caplog.records if record.levelno >= logging.ERROR) == [
        "the beat entry broken is not sent: ZeroDivisionError: no moon",
        "the beat entry often is not sent: every: 0.5 seconds; slots are whole seconds, so write '1s', '2s' and so on",
    ]


def test_what_was_sent_stands_in_the_entry(valkey: Valkey, store: str, tmp_path: Path, offices: list[Office]) -> None:
    offices.append(office := Office(valkey, tmp_path.name, store, {"tick": entry(1)}))
    office.beat.tick()
    wait_until(lambda: len(office.slots("tick")) >= 2)
    office.beat.close()
    tick = office.beat.schedule["tick"]
    assert (tick.last_run_at, tick.total_run_count) == (office.slots("tick")[-1], len(office.slots("tick")))


def test_what_is_listed_for_two_years_is_listed_anew_when_the_year_changes(
    valkey: Valkey, store: str, tmp_path: Path, offices: list[Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = crontab(0, 12, day_of_month=13, day_of_week="fri")
    offices.append(office := Office(valkey, tmp_path.name, store, {"rare": entry(rare)}))
    for year in (2030, 2031):
        monkeypatch.setattr(office.beat, "_clock", ManualClock(datetime(year, 1, 1, tzinfo=UTC)))
        office.beat.tick()
        rule = office.beat._book["office:rare"].job.schedule
        assert isinstance(rule, At)
        assert {at.year for at in rule.instants} == {year, year + 1}


def test_policies_are_those_of_the_configuration_by_any_prefix_and_celerys_own_deadline_counts(
    valkey: Valkey, store: str
) -> None:
    app = Celery("office", broker=valkey.url, set_as_current=False)
    app.config_from_object(
        {
            "CELERY_CRONCE_URL": store,
            "CELERY_CRONCE_MISSED": "all",
            "CELERY_CRONCE_LEASE": "7s",
            "CELERY_BEAT_CRON_STARTING_DEADLINE": 90,
            "CELERY_BEAT_SCHEDULE": {"cron": entry(crontab()), "tick": entry(60)},
        },
        namespace="CELERY",
    )
    beat = Scheduler(app)
    declared = {name: beat.declared(beat.schedule[name]) for name in ("cron", "tick")}
    assert {name: (job.missed, job.lease, job.start_within) for name, job in declared.items()} == {
        "cron": ("all", 7 * SECOND, 90 * SECOND),
        "tick": ("all", 7 * SECOND, None),
    }
    assert (beat.cron.place, beat.info) == (store, f"    . store -> {store}")


def test_a_policy_that_cannot_be_meant_keeps_beat_from_starting(valkey: Valkey, store: str) -> None:
    app = Celery("office", broker=valkey.url, set_as_current=False)
    app.conf.update(cronce_url=store, cronce_missed="some")
    with pytest.raises(BadPolicy, match=r"^in Celery's configuration: missed must be one of"):
        Scheduler(app)


def test_a_setting_that_is_misspelt_keeps_beat_from_starting() -> None:
    plain, prefixed = Celery("office", set_as_current=False), Celery("office", set_as_current=False)
    plain.conf.update(cronce_mised="all")
    beside = SimpleNamespace(CELERY_CRONCE_MISED="all", CRONCE_ADMINS="another's")
    prefixed.config_from_object(beside, namespace="CELERY")
    for app in (plain, prefixed):
        with pytest.raises(BadPolicy, match=r"there is no option 'cronce_mised'; did you mean cronce_missed\?"):
            Scheduler(app)


def test_settings_may_have_a_prefix_and_others_beside_them(store: str) -> None:
    app = Celery("office", set_as_current=False)
    beside = SimpleNamespace(CELERY_CRONCE_URL=store, CELERY_CRONCE_MISSED="all", CRONCE_ADMINS="another's")
    app.config_from_object(beside, namespace="CELERY")
    assert Scheduler(app).cron.place == store


def test_while_the_store_or_the_broker_is_away_nothing_is_sent_and_nothing_is_lost(
    tmp_path: Path, offices: list[Office], caplog: pytest.LogCaptureFixture
) -> None:
    """Each is said once, however often it is tried."""
    with Valkey(*DURABLE) as broker, Valkey(*DURABLE) as store:
        office = Office(broker, "celery", store.url, {"tick": entry(1)}, cronce_missed="all")
        offices.append(office)
        office.beat.tick()
        wait_until(lambda: office.slots("tick"))
        store.kill()
        wait_until(lambda: "the store does not answer" in caplog.text)
        before = office.slots("tick")
        wait_until(lambda: time.time() - before[-1].timestamp() > 1.5)
        assert office.slots("tick") == before
        store.start()
        wait_until(lambda: len(office.slots("tick")) > len(before) + 1 and rests(office))

        broker.kill()
        wait_until(lambda: "the broker does not answer" in caplog.text)
        began = time.time()
        wait_until(lambda: time.time() - began > 1.2)
        broker.start()
        wait_until(lambda: office.slots("tick")[-1].timestamp() > began + 2)
        office.beat.close()
        assert Counter(office.slots("tick")) == Counter(gapless(office.slots("tick"), SECOND))
    for what in ("the store", "the broker"):
        assert sum(f"{what} does not answer" in record.message for record in caplog.records) == 1


def rests(office: Office) -> bool:
    """All that is due has been sent, and the next is not due yet: no message is on its way."""
    sent = office.slots("tick")
    return sent == gapless(sent, SECOND) and time.time() - sent[-1].timestamp() < 0.5


def test_a_store_that_is_away_from_the_start_is_waited_for(
    valkey: Valkey, tmp_path: Path, offices: list[Office], caplog: pytest.LogCaptureFixture
) -> None:
    store = Valkey()
    offices.append(office := Office(valkey, tmp_path.name, store.url, {"tick": entry(1)}))
    for _ in range(3):
        office.beat.tick()
    with store:
        office.beat.tick()
        wait_until(lambda: office.slots("tick"))
        office.beat.close()
    assert sum("the store does not answer" in record.message for record in caplog.records) == 1

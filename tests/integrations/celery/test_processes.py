"""Real beats and real workers on Valkey. What counts is bodies."""

import os
import signal
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from celery import Celery

from tests.house.wait import wait_until
from tests.integrations.celery.shop import Shop, gapless, instants

pytestmark = pytest.mark.xdist_group("celery")
SECOND = timedelta(seconds=1)


@pytest.fixture
def app(shop: Shop) -> Celery:
    return Celery(broker=shop.broker, backend=shop.broker)


# --- beats ----------------------------------------------------------------------------------------------------------


def test_beats_that_are_killed_or_stopped_in_mid_send_lose_nothing_and_repeat_no_body(shop: Shop) -> None:
    """Four beats. One dies before its first message is out, one right after, one is stopped for longer than its lease
    and then goes on. What they left is sent by the others, by the same ids, and each body runs once."""
    entries = {"tick": {"task": "guarded", "schedule": 1, "args": ["ticks"]}}
    well = shop.beat(entries)
    unwell = [shop.beat(entries, at_send) for at_send in ("kill before", "kill after", "stop before")]
    wait_until(lambda: all(shop.noted(f"at send of {beat.pid}") for beat in unwell))
    unsent, sent, stopped = (shop.noted(f"at send of {beat.pid}")[0] for beat in unwell)
    assert [beat.wait(60) for beat in unwell[:2]] == [-signal.SIGKILL] * 2
    wait_until(lambda: stands_still(unwell[2].pid))
    since = time.time()

    wait_until(lambda: all(shop.deliveries(one["id"]) for one in (unsent, sent, stopped)))
    wait_until(lambda: shop.deliveries(sent["id"]) > 1)
    wait_until(lambda: time.time() - since > 2.5)  # longer than its lease
    os.kill(unwell[2].pid, signal.SIGCONT)
    wait_until(lambda: len(shop.noted(f"at send of {unwell[2].pid}")) > 1)  # it goes on with others
    upto = time.time()
    wait_until(lambda: bodies(shop)[-1].timestamp() > upto and bodies(shop) == gapless(bodies(shop), SECOND))
    seen = bodies(shop)
    for beat in (well, unwell[2]):
        beat.terminate()
        assert beat.wait(60) == 0
    wait_until(lambda: shop.redis.llen("celery") == 0)
    assert Counter(bodies(shop)) == Counter({*seen, *bodies(shop)})


def bodies(shop: Shop) -> list[datetime]:
    """The slots whose bodies ran, each as often as it did."""
    return sorted(instants([one["slot"] for one in shop.noted("ticks")]))


def stands_still(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# --- workers --------------------------------------------------------------------------------------------------------


def test_a_message_that_is_sent_three_times_runs_once_and_keeps_its_result(shop: Shop, app: Celery) -> None:
    task = str(uuid4())
    results = [app.send_task("adding", [1, "thrice"], task_id=task) for _ in range(3)]
    assert results[0].get(timeout=60) == 2
    wait_until(lambda: shop.deliveries(task) >= 3)  # more, if one came while another was at it
    assert (len(shop.noted("thrice")), results[0].get(timeout=1)) == (1, 2)


def test_a_retry_is_not_a_duplicate_and_a_duplicate_is_no_retry(shop: Shop, app: Celery) -> None:
    task = str(uuid4())
    result = app.send_task("retrying", ["retries"], task_id=task, headers={"cronce_slot": "shop:tick@2026"})
    assert result.get(timeout=60) == "at last"
    app.send_task("retrying", ["retries"], task_id=task)
    app.send_task("retrying", ["retries"], task_id=task, retries=1)
    wait_until(lambda: shop.deliveries(task) == 5)
    assert shop.noted("retries") == [{"attempt": attempt, "slot": "shop:tick@2026"} for attempt in range(3)]


def test_a_task_that_replaces_itself_goes_by_one_id_and_runs_each_time(shop: Shop, app: Celery) -> None:
    assert app.send_task("replacing", ["replaced", 2]).get(timeout=60) == "all"
    assert [one["left"] for one in shop.noted("replaced")] == [2, 1, 0]


def test_a_body_that_raised_is_over(shop: Shop, app: Celery) -> None:
    task = str(uuid4())
    result = app.send_task("failing", ["failures"], task_id=task)
    with pytest.raises(ValueError, match="as it should"):
        result.get(timeout=60)
    app.send_task("failing", ["failures"], task_id=task)
    wait_until(lambda: shop.deliveries(task) == 2)
    assert (len(shop.noted("failures")), result.state) == (1, "FAILURE")


def test_what_a_killed_worker_leaves_is_delivered_again_and_done_as_the_task_says(shop: Shop, app: Celery) -> None:
    """One worker with three tasks in hand, none of them acknowledged: two are in their bodies; the third is done, and
    the worker dies before Celery goes on with the chain. What the broker delivers again is run again, or left to a
    person, or answered from the record, so that the chain goes on."""
    worker = shop.worker("doomed", "kill before")
    again = app.send_task("adding", [1, "again", True], queue="doomed")
    left = app.send_task("skipping", ["left"], queue="doomed")
    wait_until(lambda: shop.noted("again") and shop.noted("left"))
    first = app.signature("adding", [10, "chain"], queue="doomed")
    chain = (first | app.signature("adding", ["chain"], queue="doomed")).apply_async()
    assert worker.wait(60) == -signal.SIGKILL
    wait_until(lambda: all(time.time() - taken > 1.5 for taken in shop.unacknowledged()))  # what Celery looks for
    shop.worker("doomed")  # when it starts, and then every 100 seconds

    assert (again.get(timeout=60), chain.get(timeout=60)) == (2, 12)
    with pytest.raises(Exception, match=r"nobody knows whether skipping/.* happened"):
        left.get(timeout=60)
    assert [one["number"] for one in shop.noted("chain")] == [10, 11]
    assert (len(shop.noted("again")), len(shop.noted("left"))) == (2, 1)

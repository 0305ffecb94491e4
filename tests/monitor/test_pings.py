"""Pings for services that raise the alarm when they stay away: in order, with one id a run, and in nobody's way."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from cronce import Cronce, Run
from cronce.errors import BadInput
from cronce.events import Event, What
from cronce.model import Fence, slot_of_cell
from cronce.monitor import destinations, pings
from cronce.monitor.pings import Ping, Pinger, check_ping, ping_of
from tests.house.wait import PATIENCE, wait_until
from tests.monitor.receiver import Receiver, receiving
from tests.runtime.shelf import SLOT, START

FENCE = Fence(7, 8)
RID = "2af18baa-221f-5729-b043-fcf0e0b347d7"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def event(what: What, detail: str = "", fence: Fence | None = FENCE, key: str = SLOT.cell) -> Event:
    return Event(what, key, "web-1:70:a", START, fence, detail)


def paths(receiver: Receiver) -> list[str]:
    return [one.path for one in [*receiver.heard]]


# --- what is told ---


@pytest.mark.parametrize(
    ("what", "detail", "sign", "why"),
    [
        (What.STARTED, "attempt 1", "start", ""),
        (What.CLOSED, "succeeded", "", ""),
        (What.CLOSED, "failed: ValueError: no", "fail", "billing@2026-03-29T12:00:00Z failed: ValueError: no"),
        (What.CLOSED, "lost: web-2 died", "fail", "billing@2026-03-29T12:00:00Z lost: web-2 died"),
        (What.CLOSED, "unknown: nobody knows", "fail", "billing@2026-03-29T12:00:00Z unknown: nobody knows"),
    ],
)
def test_what_an_event_means(what: What, detail: str, sign: str, why: str) -> None:
    assert ping_of(event(what, detail)) == Ping("billing", sign, RID, why)


@pytest.mark.parametrize(
    "silent",
    [
        event(What.GRANTED),
        event(What.ENDED, "failed"),
        event(What.RETRYING, "failed"),
        event(What.CLOSED, "skipped: too late"),
        event(What.CLOSED, "succeeded", fence=None),
        event(What.CLOSED, "succeeded", key="lock/x"),
    ],
)
def test_what_means_nothing(silent: Event) -> None:
    assert ping_of(silent) is None


def test_the_id_of_a_run_is_a_uuid_of_its_slot_and_fence() -> None:
    ids = {pings.run_id(slot, fence) for slot in (SLOT, SLOT._replace(job="x")) for fence in (FENCE, Fence(7, 9))}
    assert len({UUID(one) for one in ids}) == 4
    assert RID in ids


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ("/ping/abc", f"/ping/abc/start?rid={RID}"),
        ("/ping/{job}/", f"/ping/a%2Fb%20c/start?rid={RID}"),
        ("/ping/{job}?create=1", f"/ping/a%2Fb%20c/start?create=1&rid={RID}"),
    ],
)
def test_where_a_ping_goes(receiver: Receiver, template: str, place: str) -> None:
    pings.send_ping(receiver.url + template, Ping("a/b c", "start", RID))
    assert paths(receiver) == [place]


def test_why_it_failed_is_told_without_its_secrets(receiver: Receiver) -> None:
    pings.send_ping(receiver.url, Ping("sync", "fail", RID, "failed: mysql://root:hush@db/x, token=hush"))
    assert receiver.heard[0].body == b"failed: mysql://root:***@db/x, token=***"


@pytest.mark.parametrize("template", ["ftp://h/x", "https://h/{slot}", "x"])
def test_what_is_no_url_for_pings_is_refused(template: str) -> None:
    with pytest.raises(BadInput, match=r"URL"):
        check_ping(template)


# --- from a scheduler ---


def test_runs_of_a_scheduler_are_told_in_order_with_one_id_each(receiver: Receiver, tmp_path: Path) -> None:
    cron = Cronce(f"sqlite:///{tmp_path}/cronce.db")

    @cron.job(every="1s", name="good", retries=1, backoff="1ms", on_lost="skip")
    def good(run: Run) -> None:
        if run.attempt == 1:
            raise ValueError("not yet")

    @cron.job(every="1s", name="bad")
    def bad() -> None:
        raise ValueError("no")

    pinger = Pinger(f"{receiver.url}/ping/{{job}}")
    first: dict[str, str] = {}

    def hear(event: Event) -> None:
        """Of the first slot of each: the next may begin before it is over."""
        if event.key.startswith("run/") and first.setdefault(slot_of_cell(event.key).job, event.key) == event.key:
            pinger.hear(event)

    cron.on_event(hear)
    with cron:
        cron.start()
        wait_until(lambda: {"good", "bad/fail"} <= {path[6:].partition("?")[0] for path in paths(receiver)})
        cron.stop()
    pinger.close(PATIENCE)
    told = [path[6:].split("?rid=") for path in paths(receiver)]
    attempt, again, done = [(sign, rid) for sign, rid in told if sign.startswith("good")]
    assert [attempt[0], again[0], done[0]] == ["good/start", "good/start", "good"]
    assert (attempt[1] == again[1], again[1] == done[1]) == (False, True)
    began, failed = [(sign, rid) for sign, rid in told if sign.startswith("bad")]
    assert (began, failed) == (("bad/start", began[1]), ("bad/fail", began[1]))
    why = next(one.body.decode() for one in receiver.heard if one.path.startswith("/ping/bad/fail"))
    assert (why[:6], why[-24:]) == ("bad@20", "Z failed: ValueError: no")


def test_no_body_waits_for_a_receiver_that_hangs_and_the_oldest_go(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pings, "PINGS_QUEUED", 5)
    for limit in ("RECEIVER_TIMEOUT", "POST_TIMEOUT"):  # nobody gives up on the receiver before the test does
        monkeypatch.setattr(destinations, limit, 2 * PATIENCE)
    receiver.answer = receiver.hang
    pinger = Pinger(f"{receiver.url}/hush")
    pinger.hear(event(What.STARTED))
    wait_until(lambda: len(receiver.heard) == 1)
    began = time.monotonic()
    for number in range(20):
        pinger.hear(event(What.CLOSED, f"failed: {number}"))
    assert time.monotonic() - began < PATIENCE / 2
    receiver.let_go.set()
    pinger.close(PATIENCE)
    said = [one.body.decode().rpartition(" ")[2] for one in receiver.heard[1:]]
    assert said == ["15", "16", "17", "18", "19"]
    assert [line.getMessage() for line in caplog.records if "ping" in line.getMessage()] == [
        "15 pings were not sent: their receiver does not answer, or is too slow"
    ]


def test_a_ping_that_is_not_heard_is_a_line_in_the_log_without_the_url(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda _heard: 500
    pinger = Pinger(f"{receiver.url}/hush/{{job}}")
    pinger.hear(event(What.STARTED))
    pinger.close(PATIENCE)
    assert [(line.levelno, line.getMessage()) for line in caplog.records if "ping" in line.getMessage()] == [
        (logging.WARNING, "a ping for billing failed: http://127.0.0.1 answered 500")
    ]


def test_a_pinger_that_got_no_thread_asks_again(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    pinger = Pinger(f"{receiver.url}/ping")
    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            pinger.hear(event(What.STARTED))
    pinger.hear(event(What.CLOSED, "succeeded"))
    pinger.close(PATIENCE)
    assert [path.partition("?")[0] for path in paths(receiver)] == ["/ping/start", "/ping"]


def no_thread(_thread: object) -> None:
    raise RuntimeError("can't start new thread")


def test_a_forked_child_sends_none(receiver: Receiver) -> None:
    pinger = Pinger(receiver.url)
    child = os.fork()
    if not child:
        pinger.hear(event(What.STARTED))
        os._exit(int(bool(pinger._line)))
    assert os.waitpid(child, 0)[1] == 0
    pinger.close(0.0)


# --- from a crontab ---


def test_exec_pings_when_the_command_is_over(receiver: Receiver, tmp_path: Path) -> None:
    """In one process after the other; what each says, and what its receiver hears."""
    store = f"sqlite:///{tmp_path}/cronce.db"

    def run(slot: str, command: str, *more: str, ping: str = "/ping/{job}", at: str = store) -> tuple[int, str]:
        options = ["--slot", slot, "--store", at, "--ping", receiver.url + ping, *more]
        words = [sys.executable, "-m", "cronce", "exec", "sync", *options, "--", "sh", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert "hush" not in done.stderr
        return done.returncode, done.stderr

    assert run("2026-03-29T01:00:00Z", "true") == (0, "")
    assert run("2026-03-29T01:00:00Z", "true") == (0, "")  # another ran it, and has said so
    assert run("2026-03-29T02:00:00Z", "exit 3") == (3, "")
    assert run("2026-03-29T02:00:00Z", "exit 4", "--observe")[0] == 4
    assert run("2026-03-29T02:00:00Z", "true", "--observe")[0] == 0
    code, said = run("2026-03-29T03:00:00Z", "true", at=f"sqlite:///{tmp_path}/no/no/cronce.db")
    assert (code, said.startswith("cronce exec: ")) == (78, True)
    receiver.answer = lambda _heard: 500
    code, said = run("2026-03-29T04:00:00Z", "true", ping="/hush")
    assert (code, said) == (0, "cronce exec: the ping failed: http://127.0.0.1 answered 500\n")
    heard = [(one.path.partition("?")[0], bool(one.path.partition("rid=")[2])) for one in receiver.heard]
    assert heard == [
        ("/ping/sync", True), ("/ping/sync/fail", True), ("/ping/sync/fail", False), ("/ping/sync", False),
        ("/ping/sync/fail", False), ("/hush", True),
    ]  # fmt: skip
    assert receiver.heard[1].body == b"sync@2026-03-29T02:00:00Z failed: exit code 3"

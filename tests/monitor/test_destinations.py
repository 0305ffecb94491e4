"""Where notices go: the log, a webhook, a command, a function; and that no secret goes elsewhere."""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce.monitor import destinations
from cronce.monitor.destinations import (
    Callback,
    CommandDestination,
    Destination,
    Document,
    LogDestination,
    Undelivered,
    Webhook,
    destination,
    document,
    reaches,
    told_apart,
)
from cronce.protocol.notices import Alert
from tests.house.wait import PATIENCE, wait_until
from tests.monitor.receiver import Receiver, receiving
from tests.runtime.shelf import START

ALERT = Alert("lost", "billing", "critical", "a run of <!channel> & billing is lost.", START, remedy="Look at it.")
SAID = document(ALERT, "raised", "postgresql://db/cronce", "web-1")
SECRET = "/services/T0/B0/hush?token=hush"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def refused(to: Destination, said: Document = SAID) -> str:
    """Why it could not be sent: in words that hold no secret."""
    with pytest.raises(Undelivered) as caught:
        to.send(said)
    assert "hush" not in f"{caught.value} {caught.value.__cause__}"
    return str(caught.value)


# --- what is said ---


def test_the_document_has_a_text_for_slack_and_the_facts_for_programs() -> None:
    assert {
        "text": "critical: a run of &lt;!channel&gt; &amp; billing is lost. Look at it.",
        "alert": {
            "kind": "lost",
            "subject": "billing",
            "severity": "critical",
            "text": "a run of <!channel> & billing is lost.",
            "remedy": "Look at it.",
            "since": "2026-03-29T12:00:00Z",
            "until": None,
            "state": "raised",
            "store": "postgresql://db/cronce",
            "host": "web-1",
            "id": SAID["alert"]["id"],
            "cause": "lost/billing",
            "slots": [],
            "effects": [],
        },
        "incident": {
            "id": "lost/billing",
            "cause": "lost/billing",
            "severity": "critical",
            "since": "2026-03-29T12:00:00Z",
            "alerts": ["lost/billing"],
            "slots": [],
            "effects": [],
            "handled": None,
            "link": None,
        },
    } == SAID


def test_a_recovery_says_what_is_over_under_the_same_id() -> None:
    end = START + timedelta(minutes=3)
    over = document(ALERT._replace(cleared=end, text="it\nis lost."), "cleared", "postgresql://db/cronce", "web-2")
    assert over["text"] == r"over, after 3m: it\nis lost."
    assert over["alert"]["until"] == "2026-03-29T12:03:00Z"
    assert (over["alert"]["state"], over["alert"]["id"]) == ("cleared", SAID["alert"]["id"])
    again = document(ALERT._replace(since=START.replace(hour=13)), "raised", "postgresql://db/cronce", "web-1")
    assert again["alert"]["id"] != SAID["alert"]["id"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("db down postgresql://admin:hush@db/x token=hush", "db down postgresql://admin:***@db/x token=***"),
        ("Authorization: Bearer hush, no", "Authorization: *** no"),
        ("{'api_key': 'hush'} Password=hush", "{'api_key': ***} Password=***"),
        ("MY_SECRET = hush", "MY_SECRET = ***"),
        ("its secret is out", "its secret is out"),
    ],
)
def test_what_an_exception_said_goes_out_without_its_secrets(said: str, told: str) -> None:
    sent = document(ALERT._replace(text=said, remedy=said), "raised", "postgresql://db/cronce", "web-1")
    assert (sent["alert"]["text"], sent["alert"]["remedy"]) == (told, told)
    assert "hush" not in json.dumps(sent)


# --- webhooks ---


def test_a_webhook_is_sent_json(receiver: Receiver) -> None:
    Webhook(receiver.url + SECRET).send(SAID)
    (heard,) = receiver.heard
    assert (heard.path, heard.document) == (SECRET, SAID)
    assert heard.headers["Content-Type"] == "application/json"
    assert heard.headers["User-Agent"].startswith("cronce/")


def test_a_user_and_a_password_become_a_header(receiver: Receiver) -> None:
    Webhook(receiver.url.replace("http://", "http://ada:h%40sh@") + "/x").send(SAID)
    (heard,) = receiver.heard
    assert (heard.headers["Authorization"], heard.headers["Host"]) == ("Basic YWRhOmhAc2g=", receiver.url[7:])


@pytest.mark.parametrize(("status", "says"), [(500, "answered 500"), (404, "answered 404"), (0, "cannot be reached: ")])
def test_a_receiver_that_refuses_or_hangs_up_was_not_told(receiver: Receiver, status: int, says: str) -> None:
    receiver.answer = lambda _heard: status
    assert says in refused(Webhook(receiver.url + SECRET))
    assert len(receiver.heard) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_sent_elsewhere(receiver: Receiver, status: int) -> None:
    with receiving() as other:
        receiver.location = other.url + "/taken"
        receiver.answer = lambda _heard: status
        assert refused(Webhook(receiver.url + SECRET)) == (
            f"http://127.0.0.1 answered {status}, a redirect, which is not followed"
        )
        assert other.heard == []


def test_a_receiver_that_hangs_is_not_waited_for(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "RECEIVER_TIMEOUT", 0.2)
    receiver.answer = receiver.hang
    began = time.monotonic()
    assert refused(Webhook(receiver.url + SECRET)) == "http://127.0.0.1 did not answer within 0.2 s"
    assert time.monotonic() - began < PATIENCE / 2


def test_a_receiver_that_trickles_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and all of them never would."""
    monkeypatch.setattr(destinations, "POST_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        enough = threading.Event()

        def trickle() -> None:
            line, _ = server.accept()
            with line, suppress(OSError):
                line.sendall(b"HTTP/1.1 200 ")
                while not enough.wait(0.05):
                    line.sendall(b"O")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        began = time.monotonic()
        said = refused(Webhook(f"http://127.0.0.1:{server.getsockname()[1]}{SECRET}"))
        assert said == "http://127.0.0.1 did not answer in full within 0.5 s"
        assert time.monotonic() - began < PATIENCE / 2
        enough.set()
        thread.join()
    wait_until(lambda: all(one.name != "cronce-post" for one in threading.enumerate()))


def test_nobody_who_listens_and_nonsense_for_an_answer_are_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}{SECRET}"

        def nonsense() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65_536)
                line.sendall(b"\x00hush\r\n\r\n")

        thread = threading.Thread(target=nonsense)
        thread.start()
        assert refused(Webhook(url)) == "http://127.0.0.1 cannot be reached: BadStatusLine"
        thread.join()
    assert refused(Webhook(url)) == "http://127.0.0.1 cannot be reached: Connection refused"


@pytest.mark.parametrize(
    "url", ["ftp://h/hush", "hush", "https://", "http://h:hush/", "https://h/hu sh", "https://h\n/"]
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(BadInput, match="https://host/path") as caught:
        Webhook(url)
    assert "hush" not in str(caught.value).replace("'hush'…", "")


# --- commands ---


def test_a_command_is_given_the_document_and_the_facts(tmp_path: Path) -> None:
    script = tmp_path / "page me.sh"
    script.write_text('#!/bin/sh\ncat > "$1"\nenv | grep ^CRONCE_ALERT_ | sort > "$1.env"\n')
    script.chmod(0o700)
    out = tmp_path / "a; touch shelled"
    CommandDestination([str(script), str(out)]).send(SAID)
    assert json.loads(out.read_text()) == SAID
    facts = {**SAID["alert"], "link": ""}
    assert Path(f"{out}.env").read_text().splitlines() == sorted(
        f"CRONCE_ALERT_{name.upper()}={fact or ''}" for name, fact in facts.items()
    )
    assert not (tmp_path / "shelled").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sh", "-c", "exit 3", "hush"], "sh ended with exit code 3"),
        (["/no/such/program", "hush"], "program cannot be started: No such file or directory"),
        (["sh", "-c", "kill -9 $$"], "sh ended with exit code -9"),
    ],
)
def test_a_command_that_fails_has_told_nobody(words: list[str], says: str) -> None:
    assert refused(CommandDestination(words)) == says


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "COMMAND_TIMEOUT", 2.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reads, True)
    words = ["sh", "-c", f"(echo up; exec sleep 60) > {pipe} & wait"]
    began = time.monotonic()
    assert refused(CommandDestination(words)) == "sh did not end within 2 s, and was killed"
    assert [os.read(reads, 10), os.read(reads, 10)] == [b"up\n", b""]  # it ends when nobody has it open any more
    assert time.monotonic() - began < 30
    os.close(reads)


@pytest.mark.parametrize("words", [[], ["page", ""], ["page", 3]])
def test_what_is_no_command_is_refused(words: list[str]) -> None:
    with pytest.raises(BadInput, match="a list of words"):
        CommandDestination(words)


# --- the log, functions, and all of them ---


@pytest.mark.parametrize(
    ("severity", "state", "level"),
    [
        ("critical", "raised", logging.ERROR),
        ("warning", "raised", logging.WARNING),
        ("info", "raised", logging.INFO),
        ("critical", "cleared", logging.INFO),
    ],
)
def test_the_log_has_a_line_of_its_level(
    severity: str, state: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "cronce")
    said = document(ALERT._replace(severity=severity), state, "memory:", "web-1")
    LogDestination().send(said)
    (record,) = caplog.records
    words = f"{severity}: a run of <!channel> & billing is lost. Look at it."
    over = "over: a run of <!channel> & billing is lost."
    assert (record.name, record.levelno, record.getMessage()) == (
        "cronce", level, words if state == "raised" else over
    )  # fmt: skip
    assert record.__dict__["alert"] == said["alert"]


def test_a_function_is_called_with_the_document() -> None:
    heard: list[Document] = []
    Callback(heard.append).send(SAID)
    assert heard == [SAID]


def test_the_same_destination_in_two_processes_is_one_and_others_are_others() -> None:
    assert Webhook("https://h/a").digest == Webhook("https://h/a", "critical").digest
    assert CommandDestination(["a", "b"]).digest == CommandDestination(["a", "b"]).digest
    assert (
        len({Webhook("https://h/a").digest, Webhook("https://h/b").digest, CommandDestination(["https://h/a"]).digest})
        == 3
    )
    given: list[Destination] = [
        LogDestination(),
        Webhook("https://h/a"),
        Webhook("https://h/a"),
        Callback(lambda _: 1),
        Callback(lambda _: 2),
    ]
    assert len(told_apart(given)) == 4


def test_what_can_be_a_destination() -> None:
    kinds = [type(destination(given)) for given in ("https://h/a", ["page", "me"], print, LogDestination())]
    assert kinds == [Webhook, CommandDestination, Callback, LogDestination]
    with pytest.raises(BadInput, match="not to 3"):
        destination(3)  # type: ignore[arg-type]


def test_a_threshold_lets_through_what_is_as_bad_or_worse() -> None:
    passed = [reaches(severity, "warning") for severity in ("critical", "warning", "info", "of a newer cronce")]
    assert passed == [True, True, False, True]

"""cronce watch: what is wrong, once for a monitoring system, or on and on for a person."""

import io
import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.cli import main
from cronce.clock import SystemClock
from cronce.model import Mark, Write, alert_cell, holder_cell, job_cell
from cronce.monitor import monitor
from cronce.protocol.notices import Alert, Holder, decode_alert, encode_notice
from cronce.protocol.record import Job, Spec, encode_job
from cronce.runtime.declare import declare
from cronce.stores import open_store
from tests.house.wait import wait_until
from tests.monitor.receiver import receiving

HOLDER = "web-9:1:a"
NEWER = ("cause", "slots", "effects")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/cronce.db"
    open_store(url).close()
    return url


def die(url: str, holder: str = HOLDER) -> None:
    """A scheduler fell silent a minute ago."""
    store, since = open_store(url), SystemClock().wall() - timedelta(hours=1)
    value = encode_notice(Holder(holder, "", "both", 1, {}, since, ""))
    write = Write(holder_cell(holder), 0, value, Mark.OPEN, ttl=timedelta(seconds=-60))
    assert store.swap([write], store.load([]).epoch.seen).verdicts[0].refused is None
    store.close()


def bury(url: str) -> None:
    store = open_store(url)
    store.purge(store.load([holder_cell(HOLDER)]).cells)
    store.close()


# --- an open alert ---


def test_an_alert_is_acknowledged_or_snoozed_at_the_terminal_for_all_of_its_incident(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page had buttons for who is logged in, and nothing to type for who is not."""
    now = SystemClock().wall()
    store = open_store(url)
    alerts = [Alert(kind, "billing", "critical", "it is so", now, cause="host web-9") for kind in ("lost", "unknown")]
    writes = [Write(alert_cell(one.kind, "billing"), 0, encode_notice(one), Mark.OPEN) for one in alerts]
    store.swap(writes, store.load([]).epoch.seen)
    assert main(["watch", "--acknowledge", "lost/billing", "--by", "ada", "--reason", "on it", "--store", url]) == 0
    assert capsys.readouterr().out == "lost/billing is acknowledged by ada\n"
    cells = store.load([write.key for write in writes]).cells
    handled = [decode_alert(cell.value, cell.key).handled for cell in cells]
    assert [(one.by, one.reason, one.until) for one in handled if one] == [("ada", "on it", None)] * 2
    words = ["--for", "1h", "--by", "ada", "--json", "--store", url]
    assert main(["watch", "--acknowledge", "unknown/billing", *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["alerts"], said["handled"]["by"]) == (["lost/billing", "unknown/billing"], "ada")
    assert said["handled"]["until"] is not None
    assert main(["watch", "--acknowledge", "lost/nothing", "--store", url]) == 1
    assert "no alert lost/nothing is open; open alerts: lost/billing, unknown/billing" in capsys.readouterr().err
    assert main(["watch", "--for", "1h", "--store", url]) == 2
    assert main(["watch", "--acknowledge", "lost/billing", "--for", "0s", "--store", url]) == 2
    assert main(["watch", "--acknowledge", "", "--store", url]) == 1
    store.close()


def test_of_many_alerts_each_can_be_acknowledged_and_one_without_a_subject_by_its_kind(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of more than two hundred, those that came later were said not to be open."""
    now = SystemClock().wall()
    store = open_store(url)
    alerts = [Alert("lost", f"job{number:03}", "critical", "it is so", now) for number in range(250)]
    alerts += [Alert("silent", "", "critical", "it is so", now)]
    writes = [Write(alert_cell(one.kind, one.subject), 0, encode_notice(one), Mark.OPEN) for one in alerts]
    store.swap(writes, store.load([]).epoch.seen)
    store.close()
    for name in ("lost/job249", "silent/", "silent"):
        assert main(["watch", "--acknowledge", name, "--by", "ada", "--store", url]) == 0
        assert capsys.readouterr().out == f"{name} is acknowledged by ada\n"


# --- once ---


def test_nothing_wrong_is_exit_code_0(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--store", url]) == 0
    assert capsys.readouterr().out.startswith(f"nothing is wrong in {url}")
    assert main(["watch", "--once", "--json", "--store", url]) == 0
    assert json.loads(capsys.readouterr().out) == {"alerts": []}


def test_what_is_wrong_is_a_table_and_exit_code_1(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    die(url)
    assert main(["watch", "--once", "--store", url]) == 1
    header, line, hint = capsys.readouterr().out.splitlines()
    assert header.split() == ["severity", "what", "since", "why"]
    assert line.startswith(f"warning   gone/{HOLDER}  20")
    assert hint == f"`cronce watch --store {url} --acknowledge gone/{HOLDER}` says that you work on it"
    assert f"{HOLDER} stopped sending heartbeats" in line
    assert f"`cronce status holders --store {url}` lists who is alive" in line


def test_one_look_says_that_earlier_slots_may_be_missing_too(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It named one slot of several, and a command that runs only that one."""
    store, began = open_store(url), SystemClock().wall() - timedelta(hours=1)
    digest, text = declare("billing", "* * * * *").spec
    job = Job(floor=began, specs=(Spec(digest, began, text),))
    store.swap([Write(job_cell("billing"), 0, encode_job(job), Mark.OPEN)], store.load([]).epoch.seen)
    store.close()
    assert main(["watch", "--once", "--store", url]) == 1
    _, missed, seen, _ = capsys.readouterr().out.splitlines()
    assert missed.startswith("critical  missed/billing")
    assert seen == "a single look sees the last one or two slots of a job: earlier ones may be missing, too"


def test_what_one_look_shows_can_be_acknowledged_though_no_watcher_has_recorded_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--acknowledge` answered that no such alert was open, right after `--once` had shown it."""
    die(url)
    assert main(["watch", "--acknowledge", f"gone/{HOLDER}", "--by", "ada", "--store", url]) == 0
    assert capsys.readouterr().out == f"gone/{HOLDER} is acknowledged by ada\n"
    assert main(["status", "--json", "--store", url]) == 0
    (alert,) = json.loads(capsys.readouterr().out)["alerts"]
    assert (alert["id"], alert["handled"]["by"]) == (f"gone/{HOLDER}", "ada")
    assert main(["watch", "--once", "--store", url]) == 1
    _header, line = capsys.readouterr().out.splitlines()
    assert f"Z  acknowledged by ada: {HOLDER} stopped" in line
    assert main(["watch", "--acknowledge", f"gone/{HOLDER}", "--by", "ada", "--for", "1h", "--store", url]) == 0
    assert main(["watch", "--once", "--store", url]) == 1
    assert re.search(r"Z  snoozed by ada until \S+Z: ", capsys.readouterr().out)
    assert main(["status", "--store", url]) == 0
    assert f"warning  gone/{HOLDER}, snoozed by ada until 20" in capsys.readouterr().out
    assert main(["watch", "--acknowledge", "gone/another", "--store", url]) == 1
    assert capsys.readouterr().err.startswith("cronce watch: no alert gone/another is open; open alerts: gone/")


def test_an_alert_that_is_not_known_is_answered_with_those_that_one_look_shows(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that none was open."""
    die(url)
    assert main(["watch", "--acknowledge", "gone", "--store", url]) == 1
    assert capsys.readouterr().err == f"cronce watch: no alert gone is open; open alerts: gone/{HOLDER}\n"


def test_for_programs_it_is_one_document(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    die(url)
    assert main(["watch", "--once", "--json", "--store", url]) == 1
    (alert,) = json.loads(capsys.readouterr().out)["alerts"]
    assert list(alert) == ["id", "kind", "subject", "severity", "text", "remedy", "since", *NEWER]
    assert (alert["id"], alert["kind"], alert["subject"]) == (f"gone/{HOLDER}", "gone", HOLDER)
    assert alert["severity"] == "warning"


def test_what_is_not_as_bad_as_the_threshold_is_shown_and_no_reason_to_fail(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    die(url)
    assert main(["watch", "--once", "--threshold", "critical", "--store", url]) == 0
    assert f"{HOLDER} stopped sending heartbeats" in capsys.readouterr().out


def test_options_say_what_is_wrong(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    store, now = open_store(url), SystemClock().wall()
    for number in (1, 2):
        value = encode_notice(Holder(f"web-{number}:1:a", "", "both", 1, {}, now, "", skew=timedelta(seconds=2)))
        write = Write(holder_cell(f"web-{number}:1:a"), 0, value, Mark.OPEN, ttl=timedelta(seconds=30))
        store.swap([write], store.load([]).epoch.seen)
    store.close()

    def kinds(*options: str) -> list[str]:
        main(["watch", "--once", "--json", "--store", url, *options])
        return [one["kind"] for one in json.loads(capsys.readouterr().out)["alerts"]]

    assert kinds() == ["skew", "skew"]
    assert kinds("--skew", "3s") == []
    assert kinds("--skew", "3s", "--schedulers", "2") == []
    assert kinds("--skew", "3s", "--schedulers", "1") == ["crowded"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--late", "soon"], "soon"),
        (["--schedulers", "0"], "schedulers must be 1 or more"),
        (["--alert", "ftp://hush"], "needs a URL such as https://host/path"),
        (["--alert", "hooks.slack.com/hush"], "and the given one does not begin with https://"),
        (["--alert", "https://h/a b/hush"], "has a space or an unprintable character in it"),
        (["--alert", "https:///hush"], "has no host"),
        (["--alert-command", "./nix.sh hush"], "'./nix.sh' cannot be started"),
        (["--alert-command", "'"], "cannot be read as words"),
        (["--alert-command", " "], "is empty"),
        (["--ping", "https://h/{slot}"], "{job}"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(
    url: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--once", "--store", url, *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "hush" not in said


def test_a_store_that_cannot_be_had(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--store", f"sqlite:///{tmp_path}/none.db"]) == 1
    assert main(["watch", "--once", "--store", "postgresql://127.0.0.1:1/x?timeout=1"]) == 75
    shutil.copy(tmp_path / "cronce.db", tmp_path / "copy.db")
    with receiving() as hook:
        assert main(["watch", "--store", f"sqlite:///{tmp_path}/copy.db", "--alert", hook.url]) == 78
        assert hook.told() == [("copied", "raised")]
    assert "is a copy" in capsys.readouterr().err


# --- on and on ---


class Onlooker(threading.Thread):
    """Lets a scheduler die while `watch` runs, has it buried, and tells `watch` to end when all are told."""

    def __init__(self, url: str, out: io.StringIO, all_told: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._url, self._out, self._all_told = url, out, all_told

    def run(self) -> None:
        try:
            die(self._url)
            wait_until(lambda: self._lines() == 1)
            bury(self._url)
            wait_until(lambda: self._lines() == 2 and self._all_told())
        finally:
            if callable(signal.getsignal(signal.SIGTERM)):
                os.kill(os.getpid(), signal.SIGTERM)

    def _lines(self) -> int:
        return self._out.getvalue().count("stopped sending heartbeats")


def watch(
    url: str, monkeypatch: pytest.MonkeyPatch, *options: str, all_told: Callable[[], bool] = lambda: True
) -> list[str]:
    """What it says from beginning to end."""
    monkeypatch.setattr(monitor, "SURVEY_EVERY", 0.2)
    monkeypatch.setattr(monitor, "NOTICES_EVERY", 0.1)
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    onlooker = Onlooker(url, out, all_told)
    onlooker.start()
    assert main(["watch", "--store", url, *options]) == 0
    onlooker.join()
    return out.getvalue().splitlines()


def test_each_alert_is_a_line_when_it_is_raised_and_when_it_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    banner, raised, over = watch(url, monkeypatch)
    assert re.fullmatch(
        f"cronce watch: watching {url} until Ctrl-C; alerts are printed here and sent nowhere without --alert URL;"
        r" (nothing is wrong|1 alert) now",
        banner,
    )
    assert f"`cronce status holders --store {url}`" in raised
    assert f"Z warning gone/{HOLDER}: {HOLDER} stopped sending heartbeats" in raised
    assert re.search(rf"Z over gone/{HOLDER}, after 1m( \d+s)?: {HOLDER} stopped sending heartbeats", over)
    assert capsys.readouterr().err == ""


def test_the_first_line_says_where_alerts_go_and_what_is_wrong_now(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It named the store, and then nothing was printed, maybe for days."""
    monkeypatch.setattr(monitor, "SURVEY_EVERY", 0.2)
    die(url)
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)

    def stop() -> None:
        wait_until(lambda: f"gone/{HOLDER}" in out.getvalue())
        os.kill(os.getpid(), signal.SIGTERM)

    with receiving() as hook:
        stopper = threading.Thread(target=stop)
        stopper.start()
        assert main(["watch", "--store", url, "--alert", hook.url]) == 0
        stopper.join()
    place = f"cronce watch: watching {url} until Ctrl-C"
    assert out.getvalue().splitlines()[0] == (
        f"{place}; alerts are printed here and sent to 1 destination; 1 alert now"
    )


def test_the_default_store_is_named_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stood on standard error, and in the first line again."""
    monkeypatch.delenv("CRONCE_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "cronce").mkdir()
    open_store(f"sqlite:///{tmp_path}/cronce/cronce.db").close()
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)

    def stop() -> None:
        wait_until(lambda: "nothing is wrong now" in out.getvalue())
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    assert main(["watch"]) == 0
    stopper.join()
    assert (out.getvalue() + capsys.readouterr().err).count("cronce.db") == 1


def test_for_programs_each_is_a_document_and_others_are_told_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commanded = tmp_path / "told"
    commanded.touch()

    def times() -> list[int]:
        return [commanded.read_text().count(word) for word in ('"raised"', '"cleared"')]

    with receiving() as hook:
        told = ["--json", "--alert", hook.url, "--alert-command", f"sh -c 'cat >> {commanded}'"]
        all_told = lambda: len(hook.heard) == 2 and times() == [1, 1]  # noqa: E731
        raised, cleared = map(json.loads, watch(url, monkeypatch, *told, all_told=all_told))
        assert hook.told() == [("gone", "raised"), ("gone", "cleared")]
    assert (raised["state"], raised["kind"], raised["subject"]) == ("raised", "gone", HOLDER)
    assert (cleared["state"], cleared["kind"], cleared["subject"]) == ("cleared", "gone", HOLDER)
    assert list(raised) == ["state", "id", "kind", "subject", "severity", "text", "remedy", "since", *NEWER]
    assert times() == [1, 1]

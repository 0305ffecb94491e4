"""What a body says when it fails may hold a password. Whatever we write down or log of it does not."""

import io
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from cronce import Cronce, InDoubt, Run
from cronce.errors import BodyFailed, SlotFailed
from cronce.events import Event, What
from cronce.monitor.logs import JsonFormatter
from cronce.protocol.record import REASON_KEPT
from cronce.runtime import attempt
from cronce.runtime.attempt import describe
from cronce.runtime.log import LOGGER, log
from cronce.stores import discreet
from cronce.testing import manual

SECRET = "hunter2"
URL = f"postgresql://ada:{SECRET}@db.example/shop"
SHOWN = "postgresql://ada:***@db.example/shop"
WHEN = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cronce]:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as made:
        yield made


@pytest.fixture(params=[logging.Formatter("%(message)s"), JsonFormatter()], ids=["plain", "json"])
def lines(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """Our log, as a file would have it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(request.param)
    LOGGER.addHandler(handler)
    yield written
    LOGGER.removeHandler(handler)


def connects() -> None:
    raise ConnectionError(f"no route to {URL}")


def stored(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("cronce.db*"))


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"no route to {URL}", f"no route to {SHOWN}"),
        (f"{URL!r} and ({URL})", f"{SHOWN!r} and ({SHOWN})"),
        ("redis://:hunter2@cache/0", "redis://:***@cache/0"),
        ("mysql://ada:hun'ter2@db/shop", "mysql://ada:***@db/shop"),
        ('mysql://ada:hun"ter`2@db/shop failed', "mysql://ada:***@db/shop failed"),
        ("see http://shop.example:8080/a and mail ada@shop.example", None),
        ("https://shop.example/hook?token=hunter2&page=2", "https://shop.example/hook?token=***&page=2"),
        ("host=db password=hunter2 dbname=shop", "host=db password=*** dbname=shop"),
        ("password=hun&ter2", "password=***"),
        ("DB_PASS=hunter2 MYSQL_PWD=hunter2", "DB_PASS=*** MYSQL_PWD=***"),
        ("password='correct horse' dbname=shop", "password=*** dbname=shop"),
        ('password="correct horse" dbname=shop', "password=*** dbname=shop"),
        ("{'password': 'hunter2', 'user': 'ada'}", "{'password': ***, 'user': 'ada'}"),
        ("AWS_SECRET_ACCESS_KEY=hunter2, SECRET_KEY='hunter 2'", "AWS_SECRET_ACCESS_KEY=*** SECRET_KEY=***"),
        ("passwd: hunter2", "passwd: ***"),
        ("Authorization: Bearer hunter2", "Authorization: ***"),
        ("Authorization: Token hunter2 was refused", "Authorization: *** was refused"),
        ("{'Authorization': 'Bearer hunter2', 'Accept': '*/*'}", "{'Authorization': ***, 'Accept': '*/*'}"),
        ('{"authorization": "Basic hunter2", "a": 1}', '{"authorization": ***, "a": 1}'),
        ("{b'authorization': b'Basic hunter2'}", "{b'authorization': ***}"),
        ('Authorization: Digest username="ada", response="hunter2"', "Authorization: ***"),
        ("max_tokens=4096, secretary: Ann, bypass=1, pass: 3", None),
        ("nothing to hide: 3 of 4", None),
    ],
)
def test_a_text_keeps_all_but_its_secrets(text: str, shown: str | None) -> None:
    assert discreet(text) == (text if shown is None else shown)
    assert discreet(discreet(text)) == discreet(text)


@pytest.mark.parametrize(
    "odd",
    [
        "x" * 200_000,
        "?pass" * 20_000,
        "a://" + "?" * 20_000 + "pass" * 20_000,
        "a://" * 400_000,
        "secret_" * 100_000,
        "token:'" * 100_000,
    ],
)
def test_a_long_text_is_read_in_no_time(odd: str) -> None:
    began = monotonic()
    discreet(odd)
    assert monotonic() - began < 20  # it took minutes, or hours


def test_what_a_record_keeps_is_masked_before_it_is_cut() -> None:
    cut_inside = ValueError("x" * (REASON_KEPT - len("ValueError: postgresql://ada:hun")) + URL)
    assert describe(cut_inside).endswith("postgresql://ada:***")


# --- logs and records -------------------------------------------------------------------------------------------------


def test_the_line_of_a_failure_keeps_its_traceback_and_no_password(cron: Cronce, lines: io.StringIO) -> None:
    @cron.job(every="1m", name="broken", on_lost="skip")
    def broken() -> None:
        try:
            connects()
        except ConnectionError as error:
            raise RuntimeError(f"cannot reach {URL}") from error

    with manual(cron, "2026-03-01T00:00:30Z") as time:
        assert [one.ok for one in time.advance("1m")] == [False]
    told = lines.getvalue()
    assert f"broken@2026-03-01T00:01:00Z failed: RuntimeError: cannot reach {SHOWN}" in told
    assert f"ConnectionError: no route to {SHOWN}" in told
    assert "in connects" in told
    assert SECRET not in told


def test_an_exception_that_holds_no_secret_goes_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """For those who make more of it than words."""
    plain, secret = ValueError("no printer"), ValueError(URL)
    for error in (plain, secret):
        LOGGER.error("%s", "broken failed", exc_info=error)
    of_plain, of_secret = caplog.records
    assert of_plain.exc_info is not None
    assert (of_plain.exc_info[1], of_secret.exc_info) == (plain, None)
    assert f"ValueError: {SHOWN}" in caplog.text


def test_an_event_that_goes_with_its_line_holds_no_secret_either(caplog: pytest.LogCaptureFixture) -> None:
    log(Event(What.SILENT, "meta/epoch", "me", WHEN, detail=f"cannot reach {URL}"))
    (record,) = caplog.records
    assert SECRET not in record.getMessage()
    assert record.event.detail == f"cannot reach {SHOWN}"  # type: ignore[attr-defined]


def test_what_cannot_be_shown_is_for_its_handler_to_complain_of() -> None:
    """A filter has no safety net as handlers have: what it raises would keep a body from running."""

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("cannot be shown")

    record = LOGGER.makeRecord("cronce", logging.ERROR, __file__, 1, "%s failed", (Odd(),), None)
    assert LOGGER.filter(record)


def test_a_line_with_wrong_arguments_is_for_its_handler_to_complain_of() -> None:
    record = LOGGER.makeRecord("cronce", logging.ERROR, __file__, 1, "%s and %s", ("one",), None)
    assert LOGGER.filter(record)
    assert record.args == ("one",)


def in_a_step(run: Run) -> None:
    with suppress(InDoubt, ConnectionError):
        run.once("mail", connects, per="slot")


@pytest.mark.parametrize("body", [connects, in_a_step])
def test_the_store_never_sees_a_password(cron: Cronce, tmp_path: Path, body: Callable[..., Any]) -> None:
    job = cron.job("@daily", name="shop", start_within="3650d", retries=1, on_lost="skip")(body)
    with suppress(ConnectionError, SlotFailed):
        job.at(WHEN)()
    assert SECRET.encode() not in stored(tmp_path)
    assert b"ada:***@db.example" in stored(tmp_path)


def test_nor_what_a_command_printed(cron: Cronce, tmp_path: Path) -> None:
    job = cron.command("shop", ["sh", "-c", f"echo connecting to {URL}; exit 3"], "@daily", start_within="3650d")
    assert job(slot=WHEN) == 3
    assert SECRET.encode() not in stored(tmp_path)
    assert b"connecting to postgresql://ada:***@db.example/shop" in stored(tmp_path)


def test_nor_the_output_of_a_body_in_a_process_of_its_own(
    cron: Cronce, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = cron.job("@daily", name="shop", start_within="3650d", isolate=True)(connects)
    with pytest.raises(BodyFailed) as raised:
        job.at(WHEN)()
    told = capfd.readouterr().err
    assert f"ConnectionError: no route to {SHOWN}" in told
    assert "in connects" in told
    assert SECRET not in told + str(raised.value)
    assert SECRET.encode() not in stored(tmp_path)


def test_an_application_that_cannot_be_imported_shows_where_and_no_password(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f'def connects(url):\n    raise OSError(url)\n\n\nconnects("{URL}")\n')
    words = [sys.executable, "-m", "cronce", "run", "shop:cron"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"OSError: {SHOWN}" in done.stderr
    assert "in connects" in done.stderr
    assert SECRET not in done.stderr


def test_of_a_huge_text_only_the_beginning_is_looked_through_and_no_half_secret_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 50 MB held up the whole process for seconds."""
    looked: list[str] = []

    def looking(text: str) -> str:
        looked.append(text)
        return discreet(text)

    monkeypatch.setattr(attempt, "discreet", looking)
    long = f"postgresql://ada:{'p' * (attempt.LONG_TEXT - 40)}@db"  # masked it is short
    text = attempt.describe(ValueError(f"{long} then {URL} " + "x " * 1_000_000))
    assert (len(looked), len(looked[0]) <= attempt.LONG_TEXT) == (1, True)
    assert text == "ValueError: postgresql://ada:***@db then"

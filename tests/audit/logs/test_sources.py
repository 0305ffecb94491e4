"""Files of logs: compressed, rotated, merged by time, damaged, and with anything at all in them."""

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path
from time import process_time
from typing import IO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadInput
from cronce_audit.logs.envelope import Stamps, opened
from cronce_audit.logs.sources import LONGEST, Log, merged, open_logs
from cronce_audit.logs.words import recognise
from tests.audit.logs.reading import NEWEST, logs_of, marks

LINE = "2026-11-01 14:0{}:00 job=sync START\n"


def jobs(*files: Path) -> list[tuple[str, int]]:
    """The minute and the line of each mark, in order."""
    with ExitStack() as kept:
        logs = open_logs([str(file) for file in files], UTC, NEWEST, None, kept)
        return [(mark.file.rpartition("/")[2], mark.at.minute) for mark in merged(logs)]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_a_packed_file_is_known_by_its_first_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "app.log").write_bytes(pack(LINE.format(1).encode()))
    assert jobs(tmp_path / "app.log") == [("app.log", 1)]


def test_files_are_merged_by_time_and_each_keeps_its_order(tmp_path: Path) -> None:
    for name, minutes in {"a": "1735", "b": "246"}.items():
        (tmp_path / name).write_text("".join(map(LINE.format, minutes)))
    order = [("a", 1), ("b", 2), ("b", 4), ("b", 6), ("a", 7), ("a", 3), ("a", 5)]
    assert jobs(tmp_path / "b", tmp_path / "a") == order
    assert jobs(tmp_path / "b", tmp_path / "a", tmp_path / "b") == order


@pytest.mark.parametrize("cut", [5, 30])
def test_a_packed_file_that_breaks_off_is_an_error_and_not_half_an_answer(tmp_path: Path, cut: int) -> None:
    (tmp_path / "app.log.gz").write_bytes(gzip.compress("".join(map(LINE.format, range(9))).encode())[:-cut])
    with pytest.raises(BadInput, match=r"app\.log\.gz cannot be read to its end"):
        jobs(tmp_path / "app.log.gz")


def test_a_file_that_is_not_there_or_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone\.log cannot be read \(No such file or directory\)"):
        jobs(tmp_path / "gone.log")
    with pytest.raises(BadInput, match=r"cannot be read \(Is a directory\)"):
        jobs(tmp_path)


def test_a_line_without_an_end_is_looked_at_from_its_beginning_only() -> None:
    long = LINE.format(1).encode().rstrip() + b" " + b"x" * 3 * LONGEST + b" job=other START\n"
    assert [mark.said.job for mark in marks(long + LINE.format(2).encode())] == ["sync", "sync"]
    assert [mark.line for mark in marks(long + LINE.format(2).encode())] == [1, 2]


def test_a_log_goes_on_until_its_last_stamp_whatever_that_line_says() -> None:
    text = LINE.format(1) + "2026-11-01 15:00:00 idle\n" + "  at java.lang.Thread\n" * 20
    (log,) = logs_of({"app.log": text})
    assert len(list(log.marks())) == 1
    assert (log.until, log.lines) == (NEWEST.replace(day=1, hour=15), 22)


@given(st.binary(max_size=400))
def test_no_bytes_whatever_are_a_crash(garbage: bytes) -> None:
    marks(garbage + b"\n" + LINE.format(1).encode())


@given(
    st.text(max_size=60), st.sampled_from(["job=a START {}", "{} job=a END", "(root) CMD ({})", '{{"job": "{}"', "{}"])
)
def test_no_text_whatever_is_a_crash(garbage: str, around: str) -> None:
    recognise(opened(around.format(garbage)))


@pytest.mark.parametrize(
    "part", ['Running job "a (trigger: ', 'Job "a (trigger: ', "Scheduler: Sending due task (", "Task a["]
)
def test_a_line_that_repeats_a_programs_words_costs_no_more_than_another(part: str) -> None:
    line = f"2026-11-01 14:00:00 INFO {part * 2000}"[:LONGEST]
    before = process_time()
    assert marks(line + "\n") == []
    assert process_time() - before < 0.5


def test_memory_depends_on_starts_and_ends_and_not_on_other_lines() -> None:
    def peak(idle: int) -> int:
        tracemalloc.start()
        log = Log(cast(IO[bytes], Endless(idle)), "app.log", Stamps(UTC, NEWEST), None)
        assert len(log.marks()) == 200
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    few, many = peak(1_000), peak(10_000)
    assert many < few * 1.3


class Endless:
    """Lines that are made as they are read: any number of idle ones, then starts and ends."""

    def __init__(self, idle: int) -> None:
        self._left = idle + 200

    def readline(self, _size: int) -> bytes:
        self._left -= 1
        word = ("START", "END")[self._left % 2] if self._left < 200 else "idle"
        return f"2026-11-01 14:00:00 job=sync {word} run={self._left}\n".encode() if self._left >= 0 else b""

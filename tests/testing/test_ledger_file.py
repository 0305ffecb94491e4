"""The ledger files: what is appended is read as it grows, whole lines only."""

from pathlib import Path

from cronce.testing.ledger_file import LedgerFile, LedgerLine, LedgerTail

START = LedgerLine("start", "web-1", "report@2026-03-29T08:17:05Z", "f1", 2, "2026-03-29T08:17:05.123+00:00")
READY = LedgerLine("ready", "web-2")


def test_what_is_written_is_read_once(tmp_path: Path) -> None:
    tail = LedgerTail(tmp_path / "ledger")
    assert tail.new() == []
    book = LedgerFile(tmp_path / "ledger")
    book.write(START)
    assert tail.new() == [START]
    book.write(READY)
    LedgerFile(tmp_path / "ledger").write(START)
    assert tail.new() == [READY, START]
    assert tail.new() == []
    assert LedgerTail(tmp_path / "ledger").new() == [START, READY, START]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    tail = LedgerTail(path)
    path.write_text("ready web-1 - - 1 -\nready we")
    assert tail.new() == [LedgerLine("ready", "web-1")]
    with path.open("a") as file:
        file.write("b-2 - - 1 -\n")
    assert tail.new() == [READY]

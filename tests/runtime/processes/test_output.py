"""What is kept of a command's output: the end of two streams that have no common order."""

import os

import pytest

from cronce.runtime.processes import output
from cronce.runtime.processes.output import Stream, Tail


def test_what_is_read_in_order_is_kept_in_order() -> None:
    tail = Tail()
    tail.add_stdout(b"one\n")
    tail.add_stderr(b"two\n", 0)
    tail.add_stdout(b"three\n")
    assert tail.text() == "one\ntwo\nthree\n"


def test_the_last_words_on_stderr_are_kept_though_stdout_is_read_later() -> None:
    """What was read last was kept. Where stdout was read late, 2,000 characters of it left no word of stderr."""
    tail = Tail()
    tail.add_stdout(b"x" * 100)
    tail.add_stderr(b"it broke\n", 5000)
    assert tail.text() == "x" * 100 + "it broke\n"  # by what is known so far
    tail.add_stdout(b"x" * 3000)
    tail.add_stdout(b"x" * 2000)
    assert tail.text() == "x" * 1991 + "it broke\n"


def test_what_is_printed_after_the_last_words_comes_after_them() -> None:
    tail = Tail()
    tail.add_stderr(b"first\n", 4)
    tail.add_stderr(b"second\n", 4)
    tail.add_stderr(b"third\n", 8)
    tail.add_stdout(b"one\ntwo\nthree\n")
    tail.add_stderr(b"fourth\n", 0)
    assert tail.text() == "one\nfirst\nsecond\ntwo\nthird\nthree\nfourth\n"


def test_what_never_came_keeps_nothing_back() -> None:
    """A process that was left behind may print to stdout for ever: that is not waited for."""
    tail = Tail()
    tail.add_stderr(b"one\n", 70_000)
    tail.add_stderr(b"two\n", 0)
    assert tail.text() == "one\ntwo\n"


def test_stderr_without_end_takes_constant_room_while_nobody_reads_stdout() -> None:
    tail = Tail()
    for number in range(10_000):
        tail.add_stderr(b"%04d" % number, 65_536)
    assert sum(len(said) for _, said in tail._ahead) == 8000
    tail.add_stdout(b"x" * 65_536)
    assert tail.text() == "".join(f"{number:04d}" for number in range(9500, 10_000))


def read_late(tail: Tail) -> None:
    """A command prints 5,000 bytes and then its last words, and these are read first."""
    stdout = Stream(-1, tail)
    stderr = Stream(-1, tail, stdout)
    os.write(stdout.inlet, b"x" * 5000)
    os.write(stderr.inlet, b"it broke\n")
    assert (stderr.read(), stdout.read()) == (9, 5000)
    for stream in (stdout, stderr):
        os.close(stream.inlet)
        stream.close()


def test_of_two_pipes_the_one_that_is_read_later_pushes_nothing_out() -> None:
    read_late(tail := Tail())
    assert tail.text() == "x" * 1991 + "it broke\n"


def test_where_nobody_can_tell_how_much_is_unread_the_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(output, "ioctl", refused)
    read_late(tail := Tail())
    assert tail.text() == "x" * 2000

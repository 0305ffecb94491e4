"""What is done to the hosts and the store. Each fault begins in the middle of a run."""

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from bench.peers.cell import Cell

AWAY: Final = 8.0
"""Seconds: twice the lease."""

BACK: Final = 2.0
"""Seconds until a host that was killed is started again."""

HOUR: Final = 3600.0


class Scenario(NamedTuple):
    title: str
    fault: Callable[["Cell"], None]
    stores: tuple[str, ...] = ("postgresql", "valkey", "mariadb", "sqlite", "")
    """Where it is played; the empty one is no store at all."""
    period: int = 3
    slots: int = 8
    works: float = 1.0
    skews: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Seconds that the clock of each host is wrong by."""
    everywhere: bool = False
    """It touches the store, and is played by our rows on every kind of it; otherwise on PostgreSQL only."""


def nothing(_cell: "Cell") -> None:
    pass


def killed_and_restarted(cell: "Cell") -> None:
    """SIGKILL to the host of a run; it comes back."""
    host = cell.strike()
    cell.send(host, signal.SIGKILL)
    time.sleep(BACK)
    cell.start(host)


def killed_for_good(cell: "Cell") -> None:
    """SIGKILL to the host of a run; it never comes back."""
    cell.send(cell.strike(), signal.SIGKILL)


def frozen(cell: "Cell") -> None:
    """SIGSTOP to the host of a run, until its lease is long over; then it goes on."""
    host = cell.strike()
    cell.send(host, signal.SIGSTOP)
    time.sleep(AWAY)
    cell.send(host, signal.SIGCONT)


def emptied(cell: "Cell") -> None:
    """FLUSHALL."""
    cell.strike()
    cell.valkey.cli("FLUSHALL")


def restarted(cell: "Cell") -> None:
    """SIGKILL to the server, which is started again at once."""
    cell.strike()
    cell.server.kill()
    cell.server.start()


def outage(cell: "Cell") -> None:
    """SIGKILL to the server, which is started again when every lease is over."""
    cell.strike()
    cell.server.kill()
    time.sleep(AWAY)
    cell.server.start()


def rolling_restart(cell: "Cell") -> None:
    """SIGTERM to one host after the other; each is back before the next goes."""
    cell.strike()
    for host in cell.hosts:
        cell.stop(host)
        cell.start(host)
        cell.wait_until_up(host)


def leaped(cell: "Cell") -> None:
    """The server's clock is an hour ahead for a while."""
    cell.strike()
    with cell.clock.by(HOUR, AWAY):
        pass


SERVERS: Final = ("postgresql", "valkey", "mariadb")
DST: Final = "dst"
"""It is not played: the tool is asked when it would fire."""

SCENARIOS: Final[dict[str, Scenario]] = {
    "calm": Scenario("nothing goes wrong", nothing, everywhere=True),
    "skew": Scenario("clocks ±400 ms, a job of 10 ms", nothing, works=0.01, skews=(-0.4, 0.0, 0.4)),
    "long": Scenario(
        "a job longer than the TTL, one host 4.5 s late", nothing, period=10, slots=3, works=5.5, skews=(0.0, 0.0, -4.5)
    ),
    "killed": Scenario("SIGKILL in mid-run, restarted", killed_and_restarted),
    "gone": Scenario("SIGKILL in mid-run, never restarted", killed_for_good, everywhere=True),
    "frozen": Scenario("SIGSTOP past the lease", frozen, everywhere=True),
    "emptied": Scenario("Redis emptied", emptied, ("valkey",), everywhere=True),
    "restart": Scenario("hard restart of the server", restarted, SERVERS, everywhere=True),
    "outage": Scenario("server away for two leases", outage, SERVERS, everywhere=True),
    "rolling": Scenario("rolling restart of the hosts", rolling_restart, slots=10),
    "leap": Scenario("the server's clock leaps by an hour", leaped, SERVERS, everywhere=True),
    DST: Scenario("DST: the repeated and the skipped hour", nothing),
}

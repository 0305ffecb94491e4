"""Whether the process that began an effect, or ran a slot, is still alive. This is checked before a retry.

An expired lease shows that a process did not renew it, not that the process is dead. One that is only paused (SIGSTOP,
a suspended machine, a debugger) goes on where it was when it wakes up: in the middle of the charge. So a person who
asks for a *retry* is shown what to check first, unless the process is known to be dead: it was on this machine, and has
ended.
"""

import os
import re
from pathlib import Path
from shlex import quote
from typing import Final, Literal

from cronce.errors import CronceError
from cronce.protocol.codec import readable
from cronce.protocol.record import Outcome, Record, decode
from cronce.runtime.flow import Flow
from cronce.runtime.node import host_name
from cronce.runtime.queries import load
from cronce.value import NamedTuple

AGE_SLACK: Final = 1.0
"""Seconds by which a process may seem to be younger than its name claims."""


class RetryRefused(CronceError):
    """The process that held it may be alive, or an effect of the slot is to be resolved first. A person who has checked
    may force it."""


There = Literal["gone", "running", "stopped", "elsewhere"]


class HolderProcess(NamedTuple):
    """A process by its name: where, which, and since when by the boot clock of its machine."""

    host: str
    pid: int
    since: float


def holding(holder: str) -> HolderProcess | None:
    """None: it is no name of a process of ours."""
    try:
        host, pid, since = holder.rsplit(":", 2)
        return HolderProcess(host, int(pid), int(since, 16) / 1_000_000)
    except ValueError:
        return None


def whether_there(holder: str) -> There:
    process = holding(holder)
    if process is None or process.host != host_name():
        return "elsewhere"
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "running" if _signalled(process.pid) else "gone"
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    if began > process.since + AGE_SLACK or fields[0] in "ZX":
        return "gone"
    return "stopped" if fields[0] in "Tt" else "running"


def _signalled(pid: int) -> bool:
    """Where there is no /proc."""
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def unsure_of(effect: Record) -> Flow[str]:
    """The holder of an effect in doubt that may be in the middle of it; "" if the holder itself recorded that it is
    not."""
    if _by_itself(effect) == Outcome.UNKNOWN:
        return ""  # it raised an error, and that is on record
    maker = effect.under
    if maker is None:
        return effect.holder
    (cell,) = (yield from load([maker.run])).cells
    run = readable(cell, decode) if cell.version else None
    ended = run is not None and cell.fence == maker.fence and run.is_closed and run.outcome is not Outcome.LOST
    return "" if ended else effect.holder


def unsure_of_slot(run: Record) -> str:
    """The holder of a slot that was lost."""
    return run.holder if _by_itself(run) == Outcome.LOST else ""


def _by_itself(record: Record) -> str:
    """How it ended by itself, whatever a person has recorded since."""
    return re.split("[:,]", record.past[-1].end)[0] if record.resolved and record.past else record.outcome or ""


def refuse_unless_gone(what: str, holder: str, command: str = "") -> None:
    """Before a retry: the process that held it must be known to have ended. If it is not, an error lists what to check,
    and the command to run afterwards."""
    there, process = whether_there(holder) if holder else "gone", holding(holder)
    if there == "gone":
        return
    if process is None or there == "elsewhere":
        look = f"`ps -o pid,stat,lstart,cmd -p {process.pid}`, or run this command there" if process else ""
        where = f"on {process.host}: {look}" if process else f"where {holder} runs"
        seen = f"{holder} did not renew its lease; cronce cannot see from here whether it is dead. Check {where}"
    else:
        state = (
            "paused, not dead: when it is resumed, it continues"
            if there == "stopped"
            else ("still alive, and may continue")
        )
        seen = f"Process {process.pid} on this machine is {state}. End it (`kill -9 {process.pid}`) or wait, then retry"
    raise RetryRefused(
        f"{what} may still be in progress. {seen}. If it continues next to a new run, its work is done twice. When you"
        f" are sure that it has ended: `{command or f'cronce resolve {quote(what)} retry'} --force`"
    )

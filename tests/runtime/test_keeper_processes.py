"""The keeper's leases in another process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BARE_FORK = """
import ctypes, os
from tests.runtime.office import Office
from tests.runtime.shelf import HandClock, Wire
from tests.runtime.test_keeper import held
lease = held(Office(Wire(HandClock())))
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    os._exit(int(lease.trusted))
print(os.waitpid(pid, 0)[1], lease.trusted)
"""


def test_the_child_of_a_fork_that_python_does_not_hear_of_may_not_act_on_it() -> None:
    """As a library in C forks: nothing that was to be called after a fork is called. In a process of one thread: with
    several, such a child may wait for the interpreter's lock for ever."""
    done = subprocess.run([sys.executable, "-c", BARE_FORK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0 True\n", "")

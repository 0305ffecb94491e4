"""A process beside those of `cronce run`, that answers whoever asks over HTTP.

The foreman has no threads and must stay able to fork; the members may be stuck. So the foreman forks one more, before
the others. It ends with the foreman. Should it die, nobody answers: whoever asks is refused, and the foreman says so.
"""

import os
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from cronce.cli.address import url_of
from cronce.errors import CronceError
from cronce.runtime.log import traceback_of


class Attendant(ABC):
    """Listens from the beginning, so that an address that cannot be had is refused before anything is started.

    The rope is a pipe that nobody writes to: it ends when the foreman is gone, and with it the last of its members.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._socket = listener
        self.url = url_of(listener)
        self._rope = self._pid = 0

    @abstractmethod
    def answer(self) -> None:
        """In its process, for as long as that lasts."""

    def open(self, later: Sequence["Attendant"] = ()) -> None:
        """Fork it; before the members, so that none of them holds the door open. Nor does it hold those of who is
        opened `later`."""
        inlet, self._rope = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            for other in later:
                other._socket.close()
            for number in (signal.SIGTERM, signal.SIGINT):  # it stays to the end, and says that the others are going
                signal.signal(number, signal.SIG_IGN)
            os.close(self._rope)
            threading.Thread(target=_end_with_foreman, args=[inlet], daemon=True).start()
            try:
                self.answer()
            except CronceError as error:
                print(f"cronce run: nobody answers at {self.url}: {error}", file=sys.stderr, flush=True)
            except BaseException as error:
                print(traceback_of(error), file=sys.stderr, flush=True)
            os._exit(1)
        os.close(inlet)
        self._socket.close()

    def is_process(self, pid: int) -> bool:
        return pid == self._pid

    def close(self) -> None:
        """In the reverse order of opening: whoever was forked later holds the ropes of those before."""
        os.close(self._rope)
        with suppress(ChildProcessError):  # it is reaped already, if it died
            os.waitpid(self._pid, 0)


def _end_with_foreman(inlet: int) -> None:
    os.read(inlet, 1)
    os._exit(0)

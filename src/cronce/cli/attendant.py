"""A process beside those of `cronce run`, that answers whoever asks over HTTP.

The foreman has no threads and must stay able to fork; the members may be stuck. So the foreman forks one more, before
the others. It ends with the foreman. Should it die the foreman, who keeps its door open, forks another: whoever asks
meanwhile waits.
"""

import os
import signal
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from cronce.cli.address import url_of
from cronce.cli.words import say
from cronce.errors import CronceError
from cronce.runtime.aside import tell
from cronce.runtime.log import traceback_of


class Attendant(ABC):
    """Listens from the beginning, so that an address that cannot be had is refused before anything is started.

    The rope is a pipe that nobody writes to: it ends when the foreman is gone, and with it the last of its members. Its
    other end stays with the foreman, too, for whoever comes after one that died.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._socket = listener
        self.url = url_of(listener)
        self._inlet, self._rope = os.pipe()
        self._pid = 0

    @abstractmethod
    def answer(self) -> None:
        """In its process, for as long as that lasts."""

    def open(self, others: Sequence["Attendant"], ropes: Iterable[int]) -> None:
        """Fork it. It holds neither the doors nor the ropes of anybody else: they would not notice their end."""
        self._pid = os.fork()
        if not self._pid:
            for number in (signal.SIGTERM, signal.SIGINT):  # it stays to the end, and says that the others are going
                signal.signal(number, signal.SIG_IGN)
            for other in others:
                other.shut()
            for rope in (self._rope, *(other._rope for other in others), *ropes):
                os.close(rope)
            self._attend()

    def _attend(self) -> NoReturn:
        threading.Thread(target=_end_with_foreman, args=[self._inlet], daemon=True).start()
        try:
            self.answer()
        except CronceError as error:
            say("run", f"nobody answers at {self.url}: {error}")
        except BaseException as error:
            tell(traceback_of(error))
        finally:  # also where nobody takes these words: it must not come back as another foreman
            os._exit(1)

    def is_process(self, pid: int) -> bool:
        return pid == self._pid

    def shut(self) -> None:
        """The door, as far as this process holds it open."""
        self._socket.close()

    def close(self) -> None:
        self.shut()
        os.close(self._rope)
        os.close(self._inlet)
        if self._pid:
            with suppress(ChildProcessError):  # it is reaped already, if it died
                os.waitpid(self._pid, 0)


def _end_with_foreman(inlet: int) -> None:
    os.read(inlet, 1)
    os._exit(0)

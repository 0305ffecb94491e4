"""Signs of life of a scheduler that is not ours: who watches sees that it fell silent, or that there are two of it.

Five beats of one scheduler take four intervals, or three if it was restarted in between; of two schedulers they take
two, however they are shifted against each other. But nothing is judged here.
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cronce.errors import BadInput
from cronce.model import Boot, Cell, Mark, Write, beat_cell, check_name
from cronce.protocol.notices import Beaten, Beats, decode_beats, encode_beats
from cronce.protocol.readable import readable
from cronce.runtime.carrier import Carrier
from cronce.runtime.declare import SHORTEST, Duration
from cronce.runtime.desk import host_name
from cronce.runtime.flow import Flow, Purge
from cronce.runtime.jotter import Jot, Jotted
from cronce.schedule import format_duration, parse_duration

RECENT: Final = 20
"""How many beats are kept: those of two intervals, unless there are ten schedulers where one should be."""

LASTS: Final = 2
"""For how many intervals a beat counts. After that its scheduler is silent."""


class SignOfLife(Jot):
    """One beat."""

    def __init__(self, name: str, every: Duration, boot: Boot) -> None:
        super().__init__(beat_cell(check_name(name)), boot)
        self.every = read_every(every)
        self.by = f"{host_name()}:{os.getpid()}"

    def add(self, cell: Cell, beside: Sequence[Jot], _holder: str) -> Jotted:
        known = readable(cell, decode_beats) or Beats(timedelta(0), (), 0)
        beats = [Beaten(one.at, one.by) for one in beside if isinstance(one, SignOfLife) and one.at is not None]
        fresh = [beat for beat in beats if beat not in known.recent]  # the others landed, and no answer came
        if not fresh:
            return Jotted(None)
        recent = sorted((*known.recent, *fresh))[-RECENT:]
        value = encode_beats(Beats(self.every, tuple(recent), known.times + len(fresh)))
        return Jotted(Write(cell.key, cell.version, value, Mark.OPEN, ttl=LASTS * self.every))


def read_every(every: Duration) -> timedelta:
    length = parse_duration(every)
    if length < SHORTEST:
        raise BadInput(f"every is how often it beats: {format_duration(SHORTEST)} or more, such as '1m'")
    return length


def forget(carrier: Carrier, name: str) -> Flow[bool]:
    """Nobody is to beat any more: whether anybody did."""
    loaded, _ = yield from carrier.load([beat_cell(check_name(name))])
    known = [cell for cell in loaded.cells if cell.version]
    return bool(known) and (yield from carrier.purge(Purge(known))) > 0

"""How things stand, for the eye: each word has a tone, which is a colour, and an icon: colour is never alone."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from markupsafe import Markup, escape

from cronce.telling.words import safe

_CODE: Final = re.compile("`([^`]+)`")

Tone = Literal["good", "bad", "busy", "odd", "dim"]

_LOOKS: Final[Mapping[str, tuple[Tone, str]]] = {
    # runs
    "succeeded": ("good", "check"),
    "failed": ("bad", "cross"),
    "lost": ("bad", "ghost"),
    "unknown": ("bad", "ask"),
    "lapsed": ("bad", "wait"),
    "unreadable": ("bad", "ask"),
    "running": ("busy", "play"),
    "retrying": ("odd", "again"),
    "waiting": ("odd", "wait"),
    "due": ("odd", "wait"),
    "skipped": ("dim", "skip"),
    "too old": ("dim", "skip"),
    # jobs
    "paused": ("odd", "pause"),
    "silent": ("bad", "alarm"),
    "removed": ("dim", "cross"),
    # schedulers, and others who beat
    "alive": ("good", "dot"),
    "late": ("odd", "wait"),
    "dead": ("bad", "cross"),
    "left": ("dim", "ring"),
    "draining": ("odd", "pause"),
    "doubled": ("bad", "alarm"),
    # locks and leaders
    "held": ("busy", "lock"),
    "led": ("busy", "crown"),
    "resting": ("odd", "pause"),
    "free": ("dim", "ring"),
    "vacant": ("dim", "ring"),
    # effects
    "in doubt": ("bad", "ask"),
    "in progress": ("busy", "play"),
    "not done": ("odd", "ring"),
    "done": ("good", "check"),
    # alerts and findings
    "critical": ("bad", "stop"),
    "error": ("bad", "stop"),
    "warning": ("odd", "alarm"),
    "info": ("dim", "info"),
    "cleared": ("good", "check"),
}


def tone(word: str) -> Tone:
    return _LOOKS.get(word, ("dim", ""))[0]


def icon_of(word: str) -> str:
    return _LOOKS.get(word, ("", "ring"))[1]


def brief(holder: str) -> str:
    """A process without its start: its host and its number are enough for most."""
    return ":".join(holder.split(":")[:2])


def coded(text: str) -> Markup:
    """A sentence; what it has between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(safe(text)))))  # noqa: S704  escaped before

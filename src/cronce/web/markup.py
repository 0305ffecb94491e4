"""Markup that pages and pictures have in common: how things stand, for the eye (each word has a tone, which is a
colour, and an icon: colour is never alone), and elements of a picture, in a few words.

Whatever is put into an element is escaped; what is Markup already is not again.
"""

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


# --- elements ---------------------------------------------------------------------------------------------------------


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """`tag("rect", x="3%", class_="bar")`: an underscore at the end is dropped, one within is a hyphen."""
    spelled = "".join([f' {_spelled(key)}="{escape(plain(value))}"' for key, value in attributes.items()])
    inside = "".join([escape(child) for child in children])
    return Markup(f"<{name}{spelled}>{inside}</{name}>")  # noqa: S704  all of it is escaped, or our own


def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def plain(value: str | float) -> str:
    """A number with as many digits as a screen has use for."""
    return value if isinstance(value, str) else f"{value:.3f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    """Places along the time axis are shares of the width, so that the picture is as wide as its place on the page."""
    return f"{plain(value)}%"


def titled(text: str) -> Markup:
    """What is shown where the pointer rests."""
    return tag("title", text)

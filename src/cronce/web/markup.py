"""Markup that pages and pictures have in common: how things stand, for the eye (each word has a tone, which is a
colour, and an icon: colour is never alone), and elements of a picture, in a few words.

Whatever is put into an element is escaped; what is Markup already is not again.
"""

import re
from typing import Final

from markupsafe import Markup, escape

from cronce.telling.words import safe

_CODE_SPAN: Final = re.compile("`([^`]+)`")

_ICONS: Final = {
    **dict.fromkeys(("succeeded", "done", "cleared"), "check"),
    **dict.fromkeys(("failed", "removed", "dead", "host gone"), "cross"),
    **dict.fromkeys(("unknown", "unreadable", "in doubt"), "ask"),
    **dict.fromkeys(("lapsed", "waiting", "due", "late"), "wait"),
    **dict.fromkeys(("running", "in progress"), "play"),
    **dict.fromkeys(("skipped", "too old"), "skip"),
    **dict.fromkeys(("paused", "draining", "resting"), "pause"),
    **dict.fromkeys(("silent", "doubled", "warning"), "alarm"),
    **dict.fromkeys(("critical", "error"), "stop"),
    "lost": "ghost",
    "retrying": "again",
    "alive": "dot",
    "held": "lock",
    "led": "crown",
    "info": "info",
}


def icon_of(word: str) -> str:
    return _ICONS.get(word, "ring")


def brief(holder: str) -> str:
    """A process without its start: its host and its number are enough for most."""
    return ":".join(holder.split(":")[:2])


def coded(text: str) -> Markup:
    """A sentence; what it has between backticks is code."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(safe(text)))))  # noqa: S704  escaped before


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

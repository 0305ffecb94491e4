"""Elements of a picture, in a few words. Whatever is put into one is escaped; what is Markup already is not again."""

from markupsafe import Markup, escape


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

"""The page of each rule: what it finds, why that is bad, samples of both, and what it cannot see.

A page has a title `# CR101 name`, and the sections Bad and Good. Each fenced block there is a file: the words behind
its fence are the language, the path and, in Bad, the lines that are found: ```` ```python app.py finds=4,9 ````. Blocks
under one `###` heading, or under none, are one tree. The tests audit every tree.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from cronce_audit.model import Rule

SAMPLE_FENCE: Final = re.compile(
    r"^(?P<ticks>`{3,})(?P<language>[\w+-]*)[ ]+(?P<path>\S+)(?:[ ]+finds=(?P<finds>[\d,]+))?[ ]*\n"
    r"(?P<text>.*?)^(?P=ticks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def page(rule: Rule) -> str:
    return files("cronce_audit").joinpath("pages", f"{rule.id}.md").read_text(encoding="utf-8")


def summary(text: str) -> str:
    """The first sentence of a page."""
    paragraph = " ".join(text.split("\n\n")[1].split())
    sentence = re.match(r".+?[.!?](?=\s+[A-Z`\d]|$)", paragraph)
    return _plain(sentence[0] if sentence else paragraph)


def published(text: str) -> str:
    """A page for other viewers, which do not know the words behind our fences: the path is above the sample."""
    return SAMPLE_FENCE.sub(
        lambda block: f"`{block['path']}`\n\n{block['ticks']}{block['language']}\n{block['text']}{block['ticks']}", text
    )


class Piece(NamedTuple):
    """A part of a page for a terminal: a paragraph, a heading, or a line of a sample."""

    kind: Literal["title", "heading", "text", "item", "file", "code", "found"]
    text: str


def pieces(text: str) -> Iterator[Piece]:
    """A page without its markup. In samples, lines that are found have a kind of their own."""
    at = 0
    for block in _BLOCK.finditer(text):
        yield from _prose(text[at : block.start()])
        yield from _sample(block)
        at = block.end()
    yield from _prose(text[at:])


_BLOCK: Final = re.compile(
    r"^(?P<ticks>`{3,})(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=ticks)[ ]*$", re.MULTILINE | re.DOTALL
)
_HEADING: Final = re.compile(r"^(?P<marks>#+) (?P<title>.+)\n?", re.MULTILINE)
_ITEM: Final = re.compile(r"^(?=[-*] |\d+\. )", re.MULTILINE)


def _sample(block: "re.Match[str]") -> Iterator[Piece]:
    words = block["info"].split()[1:]
    if words and not words[0].startswith("finds="):
        yield Piece("file", words[0])
    found = next((word.removeprefix("finds=").split(",") for word in words if word.startswith("finds=")), [])
    for number, line in enumerate(block["text"].splitlines(), start=1):
        yield Piece("found" if str(number) in found else "code", line)


def _prose(text: str) -> Iterator[Piece]:
    for part in filter(None, map(str.strip, re.split(r"\n\n|(?<=\n)(?=#+ )", _HEADING.sub(r"\g<0>\n", text)))):
        heading = _HEADING.match(part)
        if heading:
            yield Piece("title" if heading["marks"] == "#" else "heading", _plain(heading["title"]))
        elif part.startswith("|"):
            yield from (Piece("code", line) for line in part.splitlines())
        else:
            yield from _paragraph(part)


def _paragraph(text: str) -> Iterator[Piece]:
    for part in filter(None, _ITEM.split(text)):
        yield Piece("item" if _ITEM.match(part) else "text", _plain(" ".join(part.split())))


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\((https?://[^)\s]+)\)", r"\1 (\2)", text)
    return re.sub(r"\[([^\]]+)\]\([^)\s]+\)|\*\*([^*]+)\*\*", lambda found: found[1] or found[2], text)

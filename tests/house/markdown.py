"""The little of Markdown that the house rules need: fenced blocks, anchors and links."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
HEADING = re.compile(r"^#{1,6} +(?P<title>.+?)(?: +#+)?$", re.MULTILINE)
EXPLICIT_ANCHOR = re.compile(r"<a (?:id|name)=\"(?P<anchor>[^\"]+)\"")
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it starts, its language, what else the fence says, and its text."""

    line: int
    language: str
    rest: str
    text: str


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a page; a block that nothing closes runs to the end, as it does on screen."""
    lines = enumerate(markdown.splitlines(), start=1)
    for number, line in lines:
        if opening := FENCE.match(line):
            body = list(_until_closed(lines, opening["ticks"]))
            language, _, rest = opening["info"].strip().partition(" ")
            yield Block(number, language, rest.strip(), textwrap.dedent("\n".join(body) + "\n"))


def _until_closed(lines: Iterator[tuple[int, str]], ticks: str) -> Iterator[str]:
    for _, line in lines:
        closing = line.strip()
        if closing.startswith(ticks) and not closing.strip("`"):
            return
        yield line


def prose(markdown: str) -> str:
    """The page without its fenced blocks, where `#` is a comment and brackets are code."""
    kept = []
    lines = enumerate(markdown.splitlines(), start=1)
    for _, line in lines:
        if opening := FENCE.match(line):
            for _ in _until_closed(lines, opening["ticks"]):
                pass
        else:
            kept.append(line)
    return "\n".join(kept)


def anchors(markdown: str) -> set[str]:
    """What `#…` may point at: headings, named as GitHub names them, and anchors set by hand."""
    text = prose(markdown)
    seen: Counter[str] = Counter()
    found = {match["anchor"] for match in EXPLICIT_ANCHOR.finditer(text)}
    for heading in HEADING.finditer(text):
        slug = _slug(heading["title"])
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def _slug(title: str) -> str:
    text = LINK.sub(lambda link: link[0][1 : link[0].index("](")], title)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def links(markdown: str) -> list[str]:
    """The targets of a page's links and images, leaving out what is only quoted as code."""
    return [match["target"] for match in LINK.finditer(INLINE_CODE.sub("", prose(markdown)))]

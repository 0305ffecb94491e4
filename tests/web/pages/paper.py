"""A page as a reader has it: its text, its links, its tables and whatever its elements say."""

from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple

from cronce.stores.memory import MemoryStore
from tests.web.house import Browser, Busy

NOW = datetime(2026, 3, 28, 12, 7, 13, tzinfo=UTC)
"""The day before clocks change in Berlin."""

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Element(NamedTuple):
    name: str
    attributes: dict[str, str]


class Paper(HTMLParser):
    """`text` has one blank between words, wherever they stand."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._said: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        self._said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._said).split())

    def all(self, name: str, **attributes: str) -> Iterator[dict[str, str]]:
        """The attributes of each element of that name that has these."""
        for element in self.elements:
            if element.name == name and attributes.items() <= element.attributes.items():
                yield element.attributes

    @property
    def links(self) -> list[str]:
        return [one["href"] for one in self.all("a") if "href" in one]

    @property
    def jobs(self) -> list[str]:
        """Whose pages it leads to."""
        return [link.removeprefix("/jobs/") for link in self.links if link.startswith("/jobs/")]

    @property
    def runs(self) -> list[str]:
        return [link.removeprefix("/runs/") for link in self.links if link.startswith("/runs/")]

    @property
    def next(self) -> str:
        """Where a list goes on."""
        return next((link["href"] for link in self.all("a") if "data-next" in link), "")


def paper(visitor: Browser, way: str, status: int = 200) -> Paper:
    answer = visitor.get(way)
    assert answer.status_code == status, answer.text
    return Paper(answer.text)


def still(**how: Any) -> Busy:
    """A busy store whose clock stands still: what is 4m ago stays so, however long a test takes."""
    return Busy(MemoryStore(lambda: NOW), **how)

"""The pages about stores say what the code does."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from cronce.errors import StoreError
from cronce.model import Traits
from cronce.stores import etcd, kubernetes, memory, mysql, postgres, redis, sqlite
from cronce.stores.base import Store
from cronce.testing import StoreContract
from tests.house import markdown

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "stores.md").read_text(encoding="utf-8")
BEGIN, END = "<!-- promises: begin -->\n", "<!-- promises: end -->"

HOW_TO = (DOCS / "how-to" / "write-a-store.md").read_text(encoding="utf-8")
TOY: dict[str, Any] = {"__name__": "toy"}
exec(next(block.text for block in markdown.blocks(HOW_TO) if block.language == "python"), TOY)


PROMISES: Final = (
    ("linearizable", "an accepted write is seen by every later read"),
    ("durable", "an accepted write survives a crash of the store"),
    ("survives_failover", "and the loss of its machine"),
    ("groups", "several cells are written together or not at all"),
    ("notifies", "can wake a waiting process"),
    ("shared", "a second connection to the same URL sees the same cells"),
    ("in_memory", "every cell costs memory, so fewer are kept by default"),
    ("history", "keeps every slot and effect, not only a job's last slots"),
    ("tally", "detects that it was restored to an earlier state"),
    ("one_clock", "one clock dates all leases"),
    ("own_clock", "its clock is this machine's"),
    ("skew", "two reads of its clock disagree by at most"),
    ("step", "its clock is exact to"),
)


def promise_table(stores: Sequence[Traits]) -> str:
    """A Markdown table: a promise in each row, a store in each column."""
    rows = [[f"{words} (`{name}`)", *(_say(getattr(traits, name)) for traits in stores)] for name, words in PROMISES]
    rows.append(["**so a slot is claimed once**", *(_say(traits.linearizable and traits.durable) for traits in stores)])
    head = [["", *(f"`{traits.name}`" for traits in stores)], ["---"] * (len(stores) + 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*head, *rows])


def _say(value: bool | timedelta) -> str:
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):g} ms"
    return "yes" if value else "no"


def test_the_table_of_promises_is_that_of_the_code() -> None:
    """If it is not, put this table between the two marks."""
    durable = redis.TRAITS._replace(name="redis, appendfsync always", durable=True)
    servers = [postgres.TRAITS, mysql.TRAITS, durable, redis.TRAITS, etcd.TRAITS, kubernetes.TRAITS]
    stores = [sqlite.TRAITS, *servers, memory.TRAITS]
    assert REFERENCE.partition(BEGIN)[2].partition(END)[0] == promise_table(stores)


def test_the_table_leaves_no_trait_out() -> None:
    assert [name for name, _ in PROMISES] == [name for name in Traits._fields if name != "name"]


def test_every_store_error_is_explained() -> None:
    kinds = [kind.__name__ for kind in _below(StoreError)]
    assert [kind for kind in kinds if f"| `{kind}` |" not in REFERENCE] == []


def _below(kind: type[Exception]) -> list[type[Exception]]:
    return [each for child in kind.__subclasses__() for each in (child, *_below(child))]


class TestToy(StoreContract):
    """The example of the how-to page keeps the contract."""

    def open(self, place: Path) -> Store:
        store: Store = TOY["open_store"](f"toy://{place}/shelf")
        return store

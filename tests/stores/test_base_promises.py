"""The pages about stores say what the code does."""

from pathlib import Path
from typing import Any

from cronce.errors import StoreError
from cronce.model import Traits
from cronce.stores import etcd, kubernetes, memory, mysql, postgres, redis, sqlite
from cronce.stores.base import PROMISES, Store, promise_table
from cronce.testing import StoreContract
from tests.house import markdown

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "stores.md").read_text(encoding="utf-8")
BEGIN, END = "<!-- promises: begin -->\n", "<!-- promises: end -->"

HOW_TO = (DOCS / "how-to" / "write-a-store.md").read_text(encoding="utf-8")
TOY: dict[str, Any] = {"__name__": "toy"}
exec(next(block.text for block in markdown.blocks(HOW_TO) if block.language == "python"), TOY)


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

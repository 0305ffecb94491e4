"""The recipes of the docs, word by word: read from the pages, and played.

Replaced is what a reader replaces: the store's URL, when the job runs, which invoices there are, and the functions that
stand for the reader's own service. Each text that is replaced stands on the page exactly so often; what the page only
does to show the result (calls, assertions) is left out. A change of a page is a change of the play.
"""

import ast
import re
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from cronce import Skipped
from cronce.errors import InDoubt, InProgress, SlotFailed
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from tests.faults.billing.nights import Fire, Pay
    from tests.faults.billing.worker import Order

DOCS: Final = Path(__file__).parents[3] / "docs" / "how-to"
SECTION: Final = re.compile(r"^## (.+?)$|^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEY: Final = "Idempotency-Key"


class Recipe(NamedTuple):
    page: str
    section: str
    """Its heading; "" for what stands before the first. Of several blocks the `place`th."""
    swaps: dict[str, str]
    """Texts of the page, and what a reader writes instead."""
    jobs: tuple[str, ...]
    """Functions of the page that are called again and again; those for each thing with a `*`."""
    whats: tuple[str, ...] = ("charge",)
    place: int = 0
    receiver: str = "no keys"
    """What the recipe is for."""
    stops: bool = True
    """Whether it stops at what is in doubt, so that somebody has to look before the next night goes on."""


def nightly(schedule: str) -> dict[str, str]:
    return {f"cron.job({schedule}": 'cron.job(every="1s", lease=LEASE'}


def shop(file: str) -> dict[str, str]:
    return {f'"sqlite:///{file}"': "SHOP_URL", f'"{file}"': "SHOP_FILE"}


STORE: Final = {'"sqlite:///cronce.db"': "STORE"}

RECIPES: Final[dict[str, Recipe]] = {
    "billing: by key": Recipe(
        "billing", "By key", STORE | nightly('"0 0 * * *"'), ("billing",), receiver="keys", stops=False
    ),
    "billing: joined transaction": Recipe(
        "billing", "In a joined transaction",
        STORE | nightly('"0 0 * * *"') | shop("shop.db") | {"range(1, 11)": "THINGS"},
        ("billing",), receiver="SQLite", stops=False,
    ),
    "billing: no memory": Recipe(
        "billing", "Where the service remembers nothing",
        STORE | nightly('"0 0 * * *"') | {"in (1, 2, 3)": "in THINGS"},
        ("billing",), stops=False,
    ),
    "effects: a thing": Recipe(
        "effects", "Once for a thing",
        STORE | nightly('"0 9 * * *"') | nightly('"0 18 * * *"') | {"in (7, 8, 9)": "in THINGS"},
        ("billing", "dunning"), ("charge", "mail"),
    ),
    "effects: many": Recipe(
        "effects", "Many", STORE | nightly('"0 3 1 * *"') | {"range(500)": "THINGS"}, ("charge_all",),
        receiver="keys", stops=False,
    ),
    "effects: a queue": Recipe(
        "idempotent", "Any function, any queue", STORE | nightly('"0 9 * * *"'), ("send_email*", "reserve*", "remind"),
        ("email", "reservation"), stops=False,
    ),
    "effects: the cursor": Recipe(
        "idempotent", "Where the last run stopped", STORE | nightly('every="15m"'), ("order_sync",), ("forward",)
    ),
    "transactions: each": Recipe(
        "transactions", "How to",
        STORE | nightly('"0 3 1 * *"') | shop("invoices.db") | {"in (7, 8, 9)": "in THINGS"},
        ("charge_each",), receiver="SQLite", stops=False,
    ),
}  # fmt: skip


def source(recipe: Recipe) -> str:
    """The block of the page, with what a reader replaces replaced."""
    heading, blocks = "", []
    for found in SECTION.finditer((DOCS / f"{recipe.page}.md").read_text("utf-8")):
        heading = found[1] or heading
        if found[2] and heading == recipe.section:
            blocks.append(found[2])
    code = blocks[recipe.place]
    for text, instead in recipe.swaps.items():
        if code.count(text) < 1:
            raise LookupError(f"{text!r} does not stand in {recipe.page}.md, {recipe.section!r} any more")
        code = code.replace(text, instead)
    return code


def defined(recipe: Recipe) -> ast.Module:
    """What the block defines: it is not called yet."""
    tree = ast.parse(source(recipe))
    tree.body = [
        one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign)
    ]
    return tree


def played(recipe: Recipe, order: "Order", pay: "Pay") -> "Fire":
    each = order.invoices // len(recipe.whats)
    things = range(1, each + 1)
    space: dict[str, Any] = {
        "STORE": order.store, "LEASE": f"{order.lease}s", "THINGS": things,
        "SHOP_FILE": order.shop, "SHOP_URL": f"sqlite:///{order.shop}",
    }  # fmt: skip

    def requested(invoice: int, idempotency_key: str = "") -> str:
        return pay(order, invoice, {KEY: idempotency_key} if idempotency_key else {})

    exec(compile(defined(recipe), f"{recipe.page}.md", "exec"), space)
    space |= service(space.keys(), things, requested, each)
    calls = [call for name in recipe.jobs for call in _calls(space, name, things)]

    def fire() -> bool:
        through = [_came_through(call, stops=recipe.stops) for call in calls]
        return all(through)

    return fire


def _calls(space: dict[str, Any], name: str, things: range) -> list[Callable[[], Any]]:
    fn = space[name.removesuffix("*")]
    if not name.endswith("*"):
        return [fn]
    return [partial(fn, thing) for thing in things]


def _came_through(call: Callable[[], Any], *, stops: bool) -> bool:
    """Whether it came by all things that do not wait for a person."""
    try:
        return not isinstance(call(), Skipped)
    except (SlotFailed, InDoubt):
        return not stops
    except (InProgress, OSError):
        return False


def service(known: Container[str], things: range, pay: Callable[..., str], each: int) -> dict[str, Any]:
    """What stands for the reader's own service, by the names that the pages use."""
    second = SimpleNamespace(append=lambda thing: pay(each + thing))
    first = SimpleNamespace(append=pay)
    ours: dict[str, Any] = {
        "unpaid_invoices": lambda: list(things),
        "orders_after": lambda last: [thing for thing in things if thing > last],
        "payment": pay,
        "letters": first, "charged": first, "mails": first, "forwarded": first, "mailed": second, "reserved": second,
    }  # fmt: skip
    return {name: one for name, one in ours.items() if name in known}

"""The SQL of docs/how-to/receivers-sql.md is what the library says, and runs where it says that it does."""

import re
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from cronce.receivers.sql import MySQL, PostgreSQL, Receiver
from tests.house import markdown
from tests.receivers.databases import Database, mysql, postgresql, sqlite
from tests.stores.places import name_of

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "receivers-sql.md"
BLOCKS: Final = [block.text for block in markdown.blocks(PAGE.read_text()) if block.language == "sql"]
NEW, OLD = "064e1f40e58400-00000000002a", "064e1f40e58400-000000000029"
VALUES: Final = {"key": "k", "id": 7, "balance": 5, "scope": "s"}


def statements(database: str) -> tuple[list[str], list[str]]:
    """What the page says for a database: tables, and recipes."""
    texts = [block.partition("\n") for block in BLOCKS]
    found = [each.strip() for head, _, text in texts if database in head for each in text.split(";") if each.strip()]
    tables = [each for each in found if each.startswith(("CREATE", "ALTER"))]
    return tables, [each for each in found if each not in tables]


@pytest.fixture(params=["PostgreSQL", "MySQL", "SQLite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Database]:
    name = name_of(tmp_path)
    match request.param:
        case "PostgreSQL":
            made = postgresql(request.getfixturevalue("postgres").url, name)
        case "MySQL":
            made = mysql(request.getfixturevalue("mysql_url"), name)
        case _:
            made = sqlite(tmp_path)
    made.run("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
    return request.param, made


@pytest.mark.parametrize("receiver", [PostgreSQL(), MySQL()])
def test_the_tables_of_the_page_are_those_of_the_library(receiver: Receiver) -> None:
    tables, _ = statements(type(receiver).__name__)
    assert tables == [*receiver.tables, _unquoted(receiver.fence_column("accounts"))]


def test_every_recipe_of_the_page_goes_on_for_the_first_and_refuses_who_comes_late(base: tuple[str, Database]) -> None:
    name, database = base
    tables, recipes = statements(name)
    database.run(*(tables or [*database.receiver.tables, database.receiver.fence_column("accounts")]))
    database.run("INSERT INTO accounts (id, balance) VALUES (7, 0)")
    said = [[_go_on(database, recipe, {**VALUES, "fence": fence}) for recipe in recipes] for fence in (NEW, OLD)]
    answers = [pair for recipe, *pair in zip(recipes, *said, strict=True) if "ON DUPLICATE" not in recipe]
    assert answers == [[True, False]] * 4
    assert database.rows("SELECT fence FROM cronce_fences") == database.rows("SELECT fence FROM accounts") == [(NEW,)]


def _go_on(database: Database, recipe: str, values: dict[str, Any]) -> bool:
    """The answer, as the page says how to read it."""
    names = re.findall(r":(\w+)", recipe)
    with database.transaction() as cursor:
        try:
            cursor.execute(re.sub(r":\w+", database.receiver.placeholder, recipe), [values[name] for name in names])
        except pymysql.IntegrityError as error:
            return bool(error.args[0] != 1062)
        return bool(cursor.fetchall() if recipe.startswith("SELECT") else cursor.rowcount)


def _unquoted(column: str) -> str:
    return column.replace("`", "").replace('"accounts"', "accounts").replace('"fence"', "fence")

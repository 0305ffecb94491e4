"""A store beside a project's data: what DATABASES says of an alias, as the URL of a store that opens."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cronce.errors import BadInput
from cronce.integrations.django.databases import store_beside
from cronce.stores import mask, open_store
from cronce.stores.mysql.server import locate as locate_mysql
from cronce.stores.postgres.server import locate as locate_postgres
from cronce.stores.postgres.server import psycopg
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Admin, Postgres

ODD = "p@:/?#[]%&=+ ü'\"\\"


def said(**words: Any) -> dict[str, Any]:
    """As Django has it, once it has filled in what was left out."""
    return {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}, **words}


@pytest.mark.parametrize(
    ("vendor", "database", "url"),
    [
        ("postgresql", said(), "postgresql:///shop"),
        ("postgresql", said(USER="anna", HOST="db", PORT=5433), "postgresql://anna@db:5433/shop"),
        ("postgresql", said(HOST="a,b", PORT="5432"), "postgresql://a:5432,b:5432/shop"),
        ("postgresql", said(HOST="a,b", PORT="1,2"), "postgresql://a:1,b:2/shop"),
        ("postgresql", said(HOST="::1", PORT="1"), "postgresql://[::1]:1/shop"),
        ("postgresql", said(HOST="/run/pg"), "postgresql://%2Frun%2Fpg/shop"),
        ("postgresql", said(NAME="", OPTIONS={"service": "shop"}), "postgresql:///?service=shop"),
        (
            "postgresql",
            said(OPTIONS={"pool": {"max_size": 4}, "sslmode": "require"}),
            "postgresql:///shop?sslmode=require",
        ),
        ("mysql", said(USER="a", PASSWORD="b", HOST="db"), "mysql://a:b@db/shop"),
        ("mysql", said(HOST="/run/my.sock"), "mysql:///shop?unix_socket=%2Frun%2Fmy.sock"),
        (
            "mysql",
            said(HOST="db", OPTIONS={"charset": "utf8mb4", "ssl": {"ca": "/ca.pem", "check_hostname": False}}),
            "mysql://db/shop?ssl_ca=%2Fca.pem&ssl_check_hostname=false",
        ),
        ("sqlite", said(NAME=Path("/data/db.sqlite3")), "sqlite:////data/db.cronce.sqlite3"),
        ("sqlite", said(NAME=":memory:"), "memory:"),
        ("sqlite", said(NAME="file:memorydb_default?mode=memory&cache=shared"), "memory:"),
        ("sqlite", said(NAME="/data/my shop"), "sqlite:////data/my%20shop.cronce"),
    ],
)
def test_an_alias_is_the_url_of_a_store(vendor: str, database: dict[str, Any], url: str) -> None:
    assert store_beside(vendor, database) == url
    more = store_beside(vendor, database, "timeout=2")
    assert more.removeprefix(url) in ("?timeout=2", "&timeout=2")


def test_a_file_is_meant_from_where_the_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = store_beside("sqlite", said(NAME="db.sqlite3"))
    monkeypatch.chdir("/")
    with closing(open_store(url)):
        assert [path.name for path in tmp_path.glob("*.sqlite3")] == ["db.cronce.sqlite3"]


def test_a_database_that_is_no_store_is_refused() -> None:
    with pytest.raises(BadInput, match="no store is kept in oracle"):
        store_beside("oracle", said())


@pytest.mark.parametrize(
    ("vendor", "option"), [("mysql", "ssl_mode"), ("mysql", "read_default_file"), ("postgresql", "x")]
)
def test_an_option_that_the_store_cannot_follow_is_refused(vendor: str, option: str) -> None:
    """It may be what makes a connection safe."""
    with pytest.raises(BadInput, match=option):
        open_store(store_beside(vendor, said(OPTIONS={option: "REQUIRED"})))


def test_postgresql_is_told_just_what_django_tells_it(postgres: Postgres, admin: Admin) -> None:
    admin.execute(f"CREATE DATABASE {_quoted(ODD)}")
    given = said(NAME=ODD, USER="postgres", PASSWORD=ODD, HOST="127.0.0.1", PORT=postgres.port)
    url = store_beside("postgresql", given | {"OPTIONS": {"options": "-c search_path=a,b"}}, "schema=cronce")
    told = psycopg.conninfo.conninfo_to_dict(locate_postgres(url).conninfo)
    assert (told["password"], told["dbname"], told["options"]) == (ODD, ODD, "-c search_path=a,b")
    assert mask(url).startswith("postgresql://postgres:***@127.0.0.1:")
    with closing(open_store(url)) as store:
        assert store.load([]).cells == []
    admin.execute(f"DROP DATABASE {_quoted(ODD)} WITH (FORCE)")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_mysql_lets_in_whom_it_lets_in_for_django(mariadb: MariaDb) -> None:
    place = locate_mysql(mariadb.url)
    with pymysql.connect(host=place.host, port=place.port, user=place.user, charset="utf8mb4") as root:
        with root.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE USER 'an@a'@'%%' IDENTIFIED BY %s", (ODD,))
            cursor.execute("CREATE OR REPLACE DATABASE `my shop`")
            cursor.execute("GRANT ALL ON `my shop`.* TO 'an@a'@'%'")
        given = said(NAME="my shop", USER="an@a", PASSWORD=ODD, HOST=place.host, PORT=place.port)
        with closing(open_store(store_beside("mysql", given))) as store:
            assert store.load([]).cells == []

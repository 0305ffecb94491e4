"""cronce dupes from the command line; what it finds in which database stands in tests/evidence."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cronce.cli import main
from tests.evidence.shops import SqliteShop
from tests.servers.postgres import Postgres

Said = pytest.CaptureFixture[str]

ASKED = ["--table", "orders", "--key", "order_id", "--at", "made", "--since", "30m"]


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    shop = SqliteShop(tmp_path / "shop.db")
    times = {"order 1": "2030-01-01 00:00:00.{}", "order 2": "2030-01-01 00:00:09.{}"}
    shop.take("order_id text, kind text, made text", "''", [])
    rows = [(order, at.format(part)) for order, at in times.items() for part in ("000", "250")]
    for order, at in [*rows, ("order 3", "2030-01-01 00:00:30")]:
        shop.add(order, at)
    return shop


QUERY = """\
SELECT "order_id", count(*), min(at_), max(at_), min(gap_), sum(CASE WHEN gap_ <= 2.0 THEN 1 ELSE 0 END)
FROM (
    SELECT "order_id", julianday("made") AS at_, round((julianday("made") - lag(julianday("made")) OVER by_key) * 86400, 3) AS gap_
    FROM "orders"
    WHERE julianday("made") >= julianday('{}') AND julianday("made") < julianday('9999-12-30 00:00:00.000') AND "order_id" IS NOT NULL
    WINDOW by_key AS (PARTITION BY "order_id" ORDER BY julianday("made"))
) AS seen
GROUP BY "order_id"
HAVING count(*) > 1 AND min(gap_) <= 2.0
ORDER BY max(at_) DESC, "order_id"
LIMIT 51"""  # noqa: E501  as it is printed


def test_the_query_is_shown_and_the_keys_newest_first(shop: SqliteShop, capsys: Said) -> None:
    assert main(["dupes", shop.url, *ASKED, "--within", "2s"]) == 1
    query, rows, summary = capsys.readouterr().out.split("\n\n")
    since = query.partition(">= julianday('")[2].partition("'")[0]
    assert query == f"{QUERY.format(since)};"
    assert rows.splitlines() == [
        "order_id  rows  pairs  first                 last                      least gap",
        "order 2   2     1      2030-01-01T00:00:09Z  2030-01-01T00:00:09.250Z  250ms",
        "order 1   2     1      2030-01-01T00:00:00Z  2030-01-01T00:00:00.250Z  250ms",
    ]
    assert (
        summary == f"2 duplicate keys within 2s of each other among 5 rows in orders since"
        f" {since.replace(' ', 'T')}Z (30m)\n"
    )


def test_the_document_for_programs(shop: SqliteShop, capsys: Said) -> None:
    assert main(["dupes", shop.url, *ASKED, "--within", "2s", "--limit", "1", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert list(document) == [
        "url", "table", "since", "within_ms", "query", "looked_at", "newest", "duplicates", "more",
    ]  # fmt: skip
    assert (document["looked_at"], document["newest"]) == (5, None)
    assert document["duplicates"] == [
        {"key": {"order_id": "order 2"}, "rows": 2, "pairs": 1, "first": "2030-01-01T00:00:09Z",
         "last": "2030-01-01T00:00:09.250000Z", "gap_ms": 250.0}
    ]  # fmt: skip
    assert (document["url"], document["table"], document["within_ms"]) == (shop.url, "orders", 2000.0)
    assert document["more"] is True


def test_no_duplicate_is_0(shop: SqliteShop, capsys: Said) -> None:
    assert main(["dupes", shop.url, *ASKED, "--within", "200ms"]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("no duplicate order_id within 200ms of each other among 5 rows in orders since")
    )


def test_nothing_to_look_at_is_3_unless_the_table_is_empty(tmp_path: Path, capsys: Said) -> None:
    shop = SqliteShop(tmp_path / "shop.db")
    shop.take("order_id text, kind text, made text", "''", [])
    assert main(["dupes", shop.url, *ASKED]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "orders is empty"
    shop.take("order_id text, kind text, made text", "'2026-10-01 12:00:00'", [("1", "a", 0), ("1", "b", 0)])
    assert main(["dupes", shop.url, *ASKED]) == 3
    summary = capsys.readouterr().out.splitlines()[-1]
    assert summary.startswith("nothing to check: no row in orders since ")
    assert summary.endswith(
        " (30m); the newest is of 2026-10-01T12:00:00Z (--tz sets its time zone, --since how far to look back)"
    )
    assert main(["dupes", shop.url, *ASKED, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["looked_at"], document["newest"]) == (0, "2026-10-01T12:00:00Z")
    shop.take("order_id text, kind text, made text", "NULL", [("1", "a", 0), ("1", "b", 0)])
    assert main(["dupes", shop.url, *ASKED]) == 3
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to check: no row in orders has a time in made and a key"


def test_the_url_may_come_from_the_environment(shop: SqliteShop, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv("SHOP_URL", shop.url)
    assert main(["dupes", "--url-from-env", "SHOP_URL", *ASKED, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["url"] == shop.url
    assert main(["dupes", "--url-from-env", "NO_SUCH_URL", *ASKED]) == 2
    assert capsys.readouterr().err.startswith("cronce dupes: $NO_SUCH_URL is not the URL of a database")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (ASKED, "name one database: URL, or --url-from-env NAME"),
        (["sqlite:///x", "--url-from-env", "X", *ASKED], "name one database: URL, or --url-from-env NAME"),
        (["shop.db", *ASKED], "'shop.db' is not the URL of a database: sqlite:///shop.db"),
        (["me:s3cret@db/shop", *ASKED], "'…@db/shop' is not the URL of a database: sqlite:///shop.db"),
        (["postgresql:me:s3cret@db/shop", *ASKED], "'…@db/shop' is not the URL of a database: sqlite:///shop.db"),
        (["s3cret@db", *ASKED], "'…@db' is not the URL of a database: sqlite:///shop.db"),
        (["sqlite:///gone.db", *ASKED], "'sqlite:///gone.db': there is no file "),
        (["sqlite:///x", *ASKED, "--key", "a,,b"], "--key 'a,,b' has an empty name in it; write order_id,kind"),
        (["sqlite:///x", *ASKED, "--limit", "0"], "--limit must be from 1 to 10,000, not 0"),
        (["sqlite:///x", *ASKED, "--timeout", "0s"], "--timeout must be more than zero, such as 30s"),
        (["sqlite:///x", *ASKED, "--since", "30"], "'30' is not a duration: add the unit, '30s' or '30m'"),
    ],
)
def test_a_call_that_makes_no_sense_is_2(capsys: Said, words: list[str], error: str) -> None:
    assert main(["dupes", *words]) == 2
    assert capsys.readouterr().err.startswith(f"cronce dupes: {error}")


def test_a_database_that_is_not_there_is_75_and_its_password_is_nowhere(capsys: Said) -> None:
    assert main(["dupes", "postgresql://me:secret@127.0.0.1:1/shop", *ASKED]) == 75
    said = capsys.readouterr()
    assert "postgresql://me:***@127.0.0.1:1/shop cannot be reached" in said.err
    assert "secret" not in said.out + said.err


def test_a_database_that_does_not_let_us_in_is_78(postgres: Postgres, mysql_url: str, capsys: Said) -> None:
    """As the help says."""
    with postgres.admin() as admin:
        admin.execute("DROP ROLE IF EXISTS locked_out")
        admin.execute("CREATE ROLE locked_out NOLOGIN")
    for url in (postgres.url, mysql_url):
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        assert main(["dupes", parts._replace(netloc=f"locked_out:s3cret@{host}").geturl(), *ASKED]) == 78
        assert "s3cret" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["dupes", "--help"])
    assert "78 when it refuses the login" in capsys.readouterr().out

"""PostgreSQL beyond the contract: what it is told apart from, what its settings promise, and who may use it."""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import psycopg
import pytest

from cronce.errors import (
    BadInput,
    CronceError,
    StoreCopied,
    StoreForgot,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Mark, Origin, Refusal, Slot, Verdict, Write
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.postgres import PostgresStore, adopt, ddl, init, spell_scan
from cronce.stores.postgres.server import locate
from cronce.testing.contract import (
    CONTRACT_LEASE,
    DAY,
    HOUR,
    cell_of,
    change,
    claim,
    keys_of,
    load,
    put,
    refusals,
    swap,
    verdicts,
    win,
)
from tests.house.wait import wait_until
from tests.servers.patience import until_it_answers
from tests.servers.postgres import PgBouncer, Postgres
from tests.stores.forks import ask

_NUMBERS = count()


@pytest.fixture
def schema() -> str:
    return f"beyond{next(_NUMBERS)}"


@pytest.fixture
def url(postgres: Postgres, schema: str) -> str:
    return f"{postgres.url}?schema={schema}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    yield store
    store.close()


@pytest.fixture
def db(postgres: Postgres) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(postgres.url, autocommit=True) as db:
        yield db


def refused(url: str, kind: type[CronceError]) -> str:
    """What a person reads who opens the store."""
    with pytest.raises(kind) as caught:
        open_store(url)
    assert caught.type is kind
    return str(caught.value)


def kept_by_a_lock(ask: Callable[[], object]) -> bool:
    """It gets no answer; whether because of a lock, says the server, if it comes to it in time."""
    with pytest.raises(StoreUnavailable) as late:
        ask()
    return "kept a lock" in str(late.value)


# --- batches that take another way ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
def test_any_text_is_kept_whatever_else_is_in_the_batch(store: PostgresStore, size: int) -> None:
    """Texts travel joined: none may be taken for what stands between them."""
    odd = ["", "\x1f", "\x1f\x1e", "a\x1fb", ' {","} NULL \\ ', "\U0010ffff", "".join(map(chr, range(1, 0x300)))]
    writes = [put(f"k{text}", value=text) for text in odd]
    for start in range(0, len(odd), size):
        win(store, *writes[start : start + size])
    assert [cell.value for cell in load(store, *(f"k{text}" for text in odd))] == odd


def test_an_empty_key_is_a_key(store: PostgresStore) -> None:
    win(store, put("", value="nameless"))
    assert cell_of(store, "").value == "nameless"
    win(store, *(change(cell, "again") for cell in load(store, "")), put("b"), put("c"), put("d"), put("e"))
    assert cell_of(store, "").value == "again"


@pytest.mark.parametrize("writes", [[put("a\0b")], [put(f"{n}", value="\0") for n in range(9)], [put("\ud800")]])
def test_what_is_no_text_is_refused_and_nothing_else_is_hurt(store: PostgresStore, writes: list[Write]) -> None:
    with pytest.raises(BadInput):
        swap(store, *writes)
    win(store, put("a"))


def test_a_key_that_no_index_can_hold_is_refused(store: PostgresStore) -> None:
    long = "".join(map(chr, random.Random(7).choices(range(0x4E00, 0x9000), k=2000)))
    with pytest.raises(BadInput, match="more than PostgreSQL can store"):
        swap(store, put(long))


def test_a_group_cannot_name_a_cell_twice(store: PostgresStore) -> None:
    with pytest.raises(BadInput, match="twice"):
        swap(store, claim("a", group=1), claim("a", group=1))


def test_groups_of_different_sizes_are_judged_each_for_itself(store: PostgresStore) -> None:
    win(store, put("taken"), put("free", Mark.FREE))
    batch = [claim("a", group=1), claim("b", group=1), claim("c", group=1), claim("d"), claim("e", group=2)]
    batch += [claim("taken", group=2), claim("free", group=3), claim("f", group=3)]
    assert refusals(swap(store, *batch)) == [None] * 4 + [Refusal.GROUP, Refusal.VERSION] + [None] * 2
    assert keys_of(store.scan(Scan("")).cells) == ["a", "b", "c", "d", "f", "free", "taken"]


def test_a_batch_of_renewals_keeps_what_it_does_not_name(store: PostgresStore) -> None:
    first = win(store, *(claim(f"run/{n}", at=DAY + n * CONTRACT_LEASE) for n in range(10)))
    renewed = win(store, *(change(cell, "renewed", ttl=CONTRACT_LEASE * (n % 2 or 2)) for n, cell in enumerate(first)))
    assert [(cell.at, cell.fence) for cell in renewed] == [(cell.at, cell.fence) for cell in first]
    closed = win(store, *(change(cell, mark=Mark.CLOSED) for cell in renewed))
    assert [cell.until for cell in closed] == [cell.until for cell in renewed]
    assert load(store, *(cell.key for cell in closed)) == closed


def test_a_batch_that_looked_new_and_is_not_is_judged_all_the_same(store: PostgresStore) -> None:
    """The first cell is new, so that the others are not read at first."""
    (last,) = win(store, put("z"))
    swapped = swap(store, *(claim(f"{letter}") for letter in "abcdefz"))
    assert refusals(swapped) == [None] * 6 + [Refusal.VERSION]
    assert swapped.verdicts[-1] == Verdict(Refusal.VERSION, last)
    assert [verdict.cell for verdict in swapped.verdicts] == load(store, *"abcdefz")


# --- the tally and the lives ----------------------------------------------------------------------------------------


def test_a_number_that_was_drawn_and_never_committed_is_no_news(store: PostgresStore, db: Any, schema: str) -> None:
    """After a crash the sequence may not know it: whoever had heard of it would take the store for forgetful."""
    before = swap(store, claim("a")).epoch
    with psycopg.connect(db.info.dsn, autocommit=False) as other:
        other.execute(f"SELECT nextval('{schema}.cronce_tally') FROM generate_series(1, 100)")
        assert store.load(["a"]).epoch == swap(store).epoch == store.scan(Scan("")).epoch == before


def test_another_handle_knows_what_it_is_shown(store: PostgresStore, url: str) -> None:
    won = swap(store, claim("a")).epoch
    other = open_store(url)
    assert other.load([]).epoch.birth == won.birth
    assert other.load(["a"]).epoch == won == other.load([]).epoch
    other.close()


def test_a_sequence_that_fell_back_is_found_out(store: PostgresStore, db: Any, schema: str) -> None:
    """As after a failover to a standby that had not heard of the last writes."""
    seen = swap(store, *(claim(f"run/{n}") for n in range(50))).epoch.seen
    db.execute(f"SELECT setval('{schema}.cronce_tally', 10)")
    swapped = store.swap([claim("b")], seen)
    assert refusals(swapped) == [Refusal.EPOCH]
    assert (swapped.epoch.origin, swapped.epoch.base) == (Origin.RESTORED, seen[1])
    assert win(store, claim("b"))[0].version == seen[1] + 1


def test_a_swap_under_way_and_a_new_life_do_not_meet(store: PostgresStore, url: str, db: Any, schema: str) -> None:
    """A writer of the old life that is not committed yet keeps the new one waiting; one that comes later is refused."""
    before = swap(store, claim("a")).epoch
    hasty = until_it_answers(lambda: open_store(f"{url}&timeout=0.3"))
    with psycopg.connect(db.info.dsn, autocommit=False) as writer:
        call = f"SELECT {schema}.cronce_swap_few(%s, '!', 'x!value')"
        assert writer.execute(call, ([*before.seen, 1000, 0, 1, 0, 0, 0, 1 << 60],)).rowcount == 1
        wait_until(lambda: kept_by_a_lock(lambda: hasty.swap([], (before.birth, before.tally + 9))))
        writer.rollback()
    assert store.swap([], (before.birth, before.tally + 9)).epoch.birth > before.birth
    assert refusals(store.swap([claim("c")], before.seen)) == [Refusal.EPOCH]
    hasty.close()


def test_when_it_was_written_last_is_noted_now_and_then(store: PostgresStore, db: Any, schema: str) -> None:
    db.execute(f"UPDATE {schema}.cronce_meta SET last_write = last_write - 6000000")
    few = swap(store, claim("a"))
    assert _noted(db, schema) == (few.epoch.tally, few.now)
    db.execute(f"UPDATE {schema}.cronce_meta SET last_write = last_write + 3600000000")  # however long it takes
    swap(store, claim("b"))
    assert _noted(db, schema) == (few.epoch.tally, few.now + HOUR)
    db.execute(f"UPDATE {schema}.cronce_meta SET last_write = last_write - 3606000000")
    many = swap(store, *(claim(f"run/{n}") for n in range(9)))
    assert _noted(db, schema) == (many.epoch.tally, many.now)


def _noted(db: Any, schema: str) -> tuple[int, datetime]:
    tally, last = db.execute(f"SELECT tally, last_write FROM {schema}.cronce_meta").fetchone()
    return tally, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=last)


# --- making it, and who may use it ----------------------------------------------------------------------------------


def test_many_processes_that_start_at_once_make_one_store(url: str) -> None:
    def start(_number: int) -> int:
        store = open_store(url)
        birth = store.load([]).epoch.birth
        store.close()
        return birth

    with ThreadPoolExecutor(8) as pool:
        births = list(pool.map(start, range(8)))
    assert len(set(births)) == 1


def test_a_schema_may_have_any_name(postgres: Postgres) -> None:
    url = f"{postgres.url}?schema=It%27s%20%22mine%22%20%25s"
    store = open_store(url)
    win(store, claim("a"))
    win(store, *(claim(f"run/{n}") for n in range(9)))
    assert refusals(swap(store, claim("b"), claim("b"))) == [None, Refusal.VERSION]
    assert store.swap([], (store.load([]).epoch.birth + 10, 0)).epoch.origin is Origin.RESTORED
    assert store.purge(load(store, "a")) == 1
    store.close()


@pytest.mark.parametrize("name", ["", "x" * 64, "a%0Ab", "$$", "{lock}", "information_schema", "pg_catalog", "pg_own"])
def test_a_name_that_cannot_be_a_schema_is_refused(postgres: Postgres, name: str) -> None:
    assert "cannot be a schema" in refused(f"{postgres.url}?schema={name}", BadInput)


def test_a_person_can_make_it_for_a_role_that_may_only_use_it(postgres: Postgres, db: Any, schema: str) -> None:
    url = f"{postgres.url}?schema={schema}"
    role = f"user_{schema}"
    theirs = url.replace("postgres@", f"{role}@")
    db.execute(f"CREATE ROLE {role} LOGIN")
    assert "cronce store sql" in refused(theirs, StoreUnusable)
    script = ddl(url)
    db.execute(script)
    grants = [line.removeprefix("--").strip() for line in script.splitlines() if line.startswith("--   GRANT")]
    db.execute("\n".join(grants).replace("TO app", f"TO {role}"))
    db.execute(script)  # again: nothing changes
    store = open_store(theirs)
    (cell,) = win(store, claim("a"))
    win(store, *(claim(f"run/{n}") for n in range(9)))
    assert store.purge([cell]) == 1
    life = store.swap([], (store.load([]).epoch.birth + 10, 0)).epoch
    assert life.origin is Origin.RESTORED
    db.execute(f"UPDATE {schema}.cronce_meta SET timeline = 0")  # as after a failover
    assert store.swap([], life.seen).epoch.birth > life.birth
    store.close()
    db.execute(f"REVOKE INSERT ON {schema}.cronce_cells FROM {role}")
    store = open_store(theirs)
    with pytest.raises(StoreUnusable, match="permission denied"):
        swap(store, claim("b"))
    store.close()


def test_an_older_version_is_brought_up_to_this_one_and_keeps_its_cells(
    store: PostgresStore, url: str, db: Any, schema: str
) -> None:
    (cell,) = win(store, claim("a"))
    birth = store.load([]).epoch.birth
    db.execute(
        f"DROP FUNCTION {schema}.cronce_swap_few; DROP INDEX {schema}.cronce_open; DROP VIEW {schema}.cronce_runs"
    )
    db.execute(
        f"CREATE FUNCTION {schema}.cronce_swap_few(bigint[], text, text, bigint) RETURNS text[] LANGUAGE sql"
        " AS 'SELECT NULL::text[]'"
    )
    db.execute(f"UPDATE {schema}.cronce_meta SET schema = 0")
    newer = open_store(url)
    assert (cell_of(newer, "a"), newer.load([]).epoch.birth) == (cell, birth)
    assert refusals(swap(newer, claim("a"))) == [Refusal.VERSION]
    assert db.execute(f"SELECT schema FROM {schema}.cronce_meta").fetchone() == (1,)
    assert db.execute(f"SELECT to_regclass('{schema}.cronce_open') IS NOT NULL").fetchone() == (True,)
    newer.close()


def test_numbers_that_others_draw_in_between_are_not_taken_for_those_of_the_batch(
    store: PostgresStore, db: Any, schema: str
) -> None:
    """The answer to a batch of new cells is its first number alone, where the others follow it."""
    db.execute(f"ALTER SEQUENCE {schema}.cronce_tally INCREMENT BY 3")
    cells = win(store, *[claim(f"run/{number}", seen=0) for number in range(20)])
    assert cells == load(store, *[cell.key for cell in cells])


def test_what_is_freed_while_a_batch_waits_is_taken_under_a_higher_number(
    store: PostgresStore, url: str, postgres: Postgres, db: Any, schema: str
) -> None:
    """Its numbers were drawn before: the fence of a run was lower than that of the run before it."""
    turns = [f"turn/{number}" for number in range(5)]
    win(store, *[put(key, Mark.FREE) for key in turns])

    def claims(name: str, keys: Sequence[str]) -> list[Write]:
        runs = [claim(f"run/{name}/{key}", seen=0, group=number) for number, key in enumerate(keys)]
        return [write for run, key in zip(runs, keys, strict=True) for write in (run, claim(key, group=run.group))]

    with (
        psycopg.connect(postgres.url) as other,
        ThreadPoolExecutor(1) as pool,
        closing(open_store(url)) as faster,
    ):
        other.execute(f"SELECT FROM {schema}.cronce_cells WHERE key = 'turn/0' FOR UPDATE")
        waiting = pool.submit(swap, store, *claims("late", turns))
        blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        wait_until(lambda: db.execute(blocked).fetchone() == (1,))
        run, turn = win(faster, *claims("first", turns[-1:]))
        (freed,) = win(faster, change(turn, mark=Mark.FREE))
        other.rollback()
        last = waiting.result().verdicts
    assert [verdict.refused for verdict in last] == [None] * 10
    assert run.fence is not None
    assert last[8].cell.fence is not None
    assert last[8].cell.fence > run.fence
    assert last[9].cell.version > freed.version


def test_a_batch_that_looks_like_a_win_is_not_read_before_it_is_written(
    store: PostgresStore, db: Any, schema: str
) -> None:
    def looked_up() -> int:
        store.ask("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()", None)
        ((scans,),) = store.ask(
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE schemaname = %s AND indexrelname = 'cronce_by_key'",
            [schema],
        )
        return int(scans)

    cells = win(store, *[claim(f"run/{number}", seen=0) for number in range(50)])
    before = looked_up()
    win(store, *[change(cell) for cell in cells])
    assert looked_up() - before == 51  # one is judged, and fifty are written


def test_a_store_that_lost_its_cells_is_not_made_anew_as_an_older_version(
    store: PostgresStore, url: str, db: Any, schema: str
) -> None:
    db.execute(f"DROP TABLE {schema}.cronce_cells CASCADE")
    other = open_store(url)
    with pytest.raises(StoreForgot):
        other.load(["a"])
    other.close()


def test_a_newer_version_is_refused_and_not_touched(store: PostgresStore, url: str, db: Any, schema: str) -> None:
    db.execute(f"UPDATE {schema}.cronce_meta SET schema = 2")
    assert "upgrade" in refused(url, StoreNewer)
    with pytest.raises(psycopg.errors.RaiseException, match="newer than this SQL"):
        db.execute(ddl(url))


def test_tables_that_are_dropped_are_missed_and_then_made_anew(store: PostgresStore, db: Any, schema: str) -> None:
    before = swap(store, claim("a")).epoch
    db.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(StoreForgot):
        store.load(["a"])
    assert store.load(["a"]).epoch.birth > before.birth


# --- what a person has to do ---


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("postgres@127.0.0.1:{port}/nodb", r'database "nodb" does not exist; create it, or correct the URL$'),
        ("ada:secret@127.0.0.1:{port}/postgres", r'role "ada" does not exist; create it, or correct the URL$'),
    ],
)
def test_who_is_refused_is_told_what_to_do_and_sees_no_frames_of_ours(
    postgres: Postgres, place: str, says: str
) -> None:
    """There was no word of what to do, and fifty lines of the driver's and our frames."""
    with pytest.raises(StoreUnusable, match=says) as caught:
        open_store(f"postgresql://{place.format(port=postgres.port)}")
    assert (len(caught.traceback), caught.value.__suppress_context__) == (2, True)


# --- copies ---------------------------------------------------------------------------------------------------------


def test_a_copy_of_the_database_is_refused_until_it_is_adopted(postgres: Postgres, db: Any, schema: str) -> None:
    db.execute(f"CREATE DATABASE original_{schema}")
    url = postgres.url.removesuffix("postgres") + f"original_{schema}"
    store = open_store(url)
    (cell,) = win(store, claim("a"))
    original = store.load([]).epoch
    store.close()
    db.execute(f"CREATE DATABASE copy_{schema} TEMPLATE original_{schema}")
    url = url.replace("original", "copy")
    assert f"cronce store adopt {url}" in refused(url, StoreCopied)
    epoch = adopt(url)
    assert (epoch.origin, epoch.base) == (Origin.RESTORED, original.tally)
    assert epoch.birth > original.birth
    adopted = open_store(url)
    assert (cell_of(adopted, "a"), adopted.load([]).epoch) == (cell, epoch)
    assert refusals(adopted.swap([claim("b")], original.seen)) == [Refusal.EPOCH]
    adopted.close()


def test_init_begins_a_store_once(url: str) -> None:
    epoch = init(url)
    assert (epoch.origin, epoch.tally, init(url)) == (Origin.MADE, 0, epoch)


# --- finding things -------------------------------------------------------------------------------------------------

SCANS = [
    *(
        Scan("run/", by="at", newest_first=newest, mark=mark)
        for newest in (False, True)
        for mark in (None, Mark.CLOSED)
    ),
    *(Scan("run/job-7/", mark=mark, newest_first=True) for mark in (None, *Mark)),
    *(Scan("run/", "until", Mark.OPEN, DAY, newest_first=newest) for newest in (False, True)),
    *(Scan("run/", by=by, mark=Mark.ATTENTION, newest_first=True) for by in ("key", "at")),
    Scan("run/job-7/", "until", Mark.OPEN, DAY),
    Scan("holder/"),
]


@pytest.fixture(scope="module")
def filled(postgres: Postgres) -> Iterator[PostgresStore]:
    """A store with 20,000 closed runs, a few open ones and a few that want attention; nobody counted them yet."""
    store = open_store(f"{postgres.url}?schema=filled")
    assert isinstance(store, PostgresStore)
    store.ask(
        "INSERT INTO filled.cronce_cells (key, version, mark, at, until, value)"
        " SELECT 'run/job-' || n % 50 || '/' || 100000 + n, n, CASE WHEN n % 500 = 7 THEN 1 WHEN n % 500 = 9 THEN 4"
        " ELSE 3 END, n, n, 'x' FROM generate_series(1, 20000) AS n RETURNING 1",
        None,
    )
    yield store
    store.close()


@pytest.mark.parametrize("scan", SCANS, ids=lambda scan: f"{scan.prefix}-{scan.by}-{scan.mark}-{scan.newest_first}")
def test_a_scan_reads_an_index_and_no_more_than_it_needs(filled: PostgresStore, scan: Scan) -> None:
    statement, bounds = spell_scan(scan._replace(limit=50))
    (plan,) = filled.ask("EXPLAIN (ANALYZE, FORMAT JSON) " + statement, bounds)
    nodes = list(_nodes(plan[0][0]["Plan"]))
    cells = [node for node in nodes if node.get("Relation Name") == "cronce_cells"]
    assert [node["Node Type"] for node in cells if "Index" not in node["Node Type"]] in ([], ["Bitmap Heap Scan"])
    read = sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in cells)
    assert read <= 450  # all of one job, or all that is open


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


def test_the_view_shows_runs_as_people_read_them(store: PostgresStore, db: Any, schema: str) -> None:
    slot = Slot("billing", datetime(2026, 3, 29, 1, tzinfo=UTC))
    by_hand = slot._replace(request="again")
    running = Record(State.RUNNING, 2, "n", "web-7:1:a", CONTRACT_LEASE, started=slot.at + CONTRACT_LEASE)
    lost = Record(State.CLOSED, 1, finished=slot.at + 2 * CONTRACT_LEASE, outcome=Outcome.LOST, reason="gone")
    first, second = win(
        store,
        claim(slot.cell, encode(running), at=slot.at),
        put(by_hand.cell, Mark.ATTENTION, value=encode(lost)),
        put("turn/billing/0"),
    )[:2]
    begun = ("billing", slot.at)
    rows = db.execute(f"SELECT * FROM {schema}.cronce_runs ORDER BY request NULLS FIRST").fetchall()
    assert rows == [
        (
            *begun,
            None,
            "running",
            None,
            None,
            "web-7:1:a",
            str(first.fence),
            2,
            running.started,
            None,
            slot.at,
            first.until,
        ),
        (*begun, "again", "closed", "lost", "gone", None, None, 1, None, lost.finished, None, second.until),
    ]
    columns = [column.name for column in db.execute(f"SELECT * FROM {schema}.cronce_runs").description]
    assert " ".join(columns) == "job slot request state outcome reason holder fence grant started finished due until"


# --- URLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("colour=red", 'no option "colour"'),
        ("timeout=soon", "timeout=soon is not a number of seconds"),
        ("timeout=0", "timeout=0 is not a number of seconds"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(options: str, says: str) -> None:
    text = refused(f"postgresql://app:s3cret@127.0.0.1/db?{options}", BadInput)
    assert says in text
    assert "s3cret" not in text


def test_a_url_that_libpq_cannot_read_is_refused_without_a_word_of_its_password() -> None:
    text = refused("postgresql://app:s3/cret@127.0.0.1/db", BadInput)
    assert ("s3" in text, "%40" in text) == (False, True)


def test_libpq_gets_its_options(postgres: Postgres, schema: str) -> None:
    store = open_store(f"{postgres.url}?application_name=nightly&schema={schema}&options=-c%20geqo%3Doff")
    assert isinstance(store, PostgresStore)
    shown = store.ask("SELECT current_setting('application_name'), current_setting('geqo')", [])
    assert [tuple(row) for row in shown] == [("nightly", "off")]
    store.close()


def test_a_store_that_is_shown_does_not_show_its_password() -> None:
    assert "s3cret" not in repr(locate("postgresql://app:s3cret@127.0.0.1/db"))


def test_nobody_is_there(schema: str) -> None:
    text = refused(f"postgresql://app:s3cret@127.0.0.1:1/db?schema={schema}", StoreUnavailable)
    assert ("app:***@127.0.0.1:1" in text, "s3cret" in text) == (True, False)


def test_a_database_that_is_missing_is_for_a_person_to_make(postgres: Postgres) -> None:
    assert 'database "postgres_nowhere" does not exist' in refused(f"{postgres.url}_nowhere", StoreUnusable)


# --- what stands in the way -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "kind", "says"),
    [
        ("default_transaction_read_only = on", StoreReadOnly, "read-only"),
        ("default_transaction_isolation = serializable", StoreUnusable, "read committed"),
    ],
)
def test_a_role_whose_settings_forbid_it_is_told(
    url: str, db: Any, schema: str, setting: str, kind: type[CronceError], says: str
) -> None:
    open_store(url).close()
    db.execute(f"CREATE ROLE other_{schema} SUPERUSER LOGIN")
    db.execute(f"ALTER ROLE other_{schema} SET {setting}")
    assert says in refused(url.replace("postgres@", f"other_{schema}@"), kind)


def test_a_lock_of_somebody_else_is_waited_for_no_longer_than_the_timeout(
    store: PostgresStore, url: str, db: Any, schema: str
) -> None:
    (cell,) = win(store, claim("a"))
    hasty = until_it_answers(lambda: open_store(f"{url}&timeout=0.2"))
    with psycopg.connect(db.info.dsn, autocommit=False) as other:
        other.execute(f"SELECT * FROM {schema}.cronce_cells FOR UPDATE")
        wait_until(lambda: kept_by_a_lock(lambda: swap(hasty, change(cell))))
        assert verdicts(swap(store, claim("a"))) == [Verdict(Refusal.VERSION, cell)]  # a loser asks for no lock
        assert store.purge([cell]) == 0
    assert win(store, change(cell))[0].version > cell.version
    hasty.close()


def test_a_connection_that_was_lost_while_idle_is_not_noticed_by_anyone(store: PostgresStore, db: Any) -> None:
    ((session,),) = store.ask("SELECT pg_backend_pid()", [])
    db.execute("SELECT pg_terminate_backend(%s, 5000)", (session,))
    win(store, claim("a"))


def test_a_child_uses_connections_of_its_own(store: PostgresStore) -> None:
    session = store.ask("SELECT pg_backend_pid()", [])
    theirs = ask(lambda: [store.ask("SELECT pg_backend_pid()", [])[0][0], refusals(swap(store, claim("a")))])
    assert theirs[0] != session[0][0]
    assert theirs[1] == [None]
    assert store.ask("SELECT pg_backend_pid()", []) == session
    assert refusals(swap(store, claim("a"))) == [Refusal.VERSION]


# --- the doctor -----------------------------------------------------------------------------------------------------


def test_the_doctor_hears_what_a_server_promises(store: PostgresStore, url: str, pgbouncer: PgBouncer) -> None:
    found = {check.name: check for check in store.checks()}
    assert {name: check.verdict for name, check in found.items() if name != "namespaces"} == dict.fromkeys(
        ("version", "durable", "failover", "pooler", "connection", "vacuum", "statements", "transactions"), "ok"
    )
    assert found["pooler"].says.startswith("none")
    pooled = open_store(url.replace(store.place.url.partition("?")[0], pgbouncer.url))
    assert isinstance(pooled, PostgresStore)
    assert "PgBouncer" in {check.name: check.says for check in pooled.checks()}["pooler"]
    pooled.close()


def test_the_doctor_names_other_stores_of_the_database(store: PostgresStore, postgres: Postgres) -> None:
    open_store(f"{postgres.url}?schema=Another").close()
    (namespaces,) = [check for check in store.checks() if check.name == "namespaces"]
    assert namespaces.verdict == "warn"
    assert "Another" in namespaces.says

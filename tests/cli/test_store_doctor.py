"""cronce doctor from the command line, on stores that are well, that are not, and that are not there."""

import json
import os
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from cronce.cli import main
from cronce.cli.store import lines, summary, worst
from cronce.cli.terminal import Screen
from cronce.clock import KernelClock
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.checks import error, ok, warn
from cronce.stores.redis import init
from tests.house.wait import wait_until
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.valkey import DURABLE, Valkey

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose clock is kept right, and whose disk is a disk: this one's is not what these tests are about."""
    monkeypatch.setattr("cronce.runtime.doctor.kernel_clock", lambda: KernelClock(True, 0.001))
    monkeypatch.setattr("cronce.mounts.current_table", lambda: "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/cronce.db"
    open_store(url).close()
    return url


def told(capsys: Said, *arguments: str, code: int = 0) -> dict[str, dict[str, str]]:
    """The checks by their names, from the document; the verdict of all is among them."""
    assert main(["doctor", *arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["url", "verdict", "checks"]
    assert all(list(check) == ["name", "verdict", "says", "remedy"] for check in document["checks"])
    return {**{check["name"]: check for check in document["checks"]}, "all": document}


# --- how it says it -------------------------------------------------------------------------------------------------


def test_a_line_for_each_check_and_a_verdict_at_the_end(url: str, capsys: Said) -> None:
    assert main(["doctor", url]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[2] == f"✓ store         {url}"
    assert "✓ claim         of 16 claims of one slot at the same time one was granted, in each of 5 rounds" in said
    assert said[-3:] == ["✓ tidy          the 18 cells that the test wrote are removed", "", "all is well"]
    assert {line[0] for line in said[:-2]} == {"✓"}


def test_nothing_is_left_in_the_store(url: str, capsys: Said) -> None:
    assert main(["doctor", url]) == 0
    store = open_store(url)
    assert store.scan(Scan("")).cells == []
    store.close()


def test_lines_are_wrapped_to_the_terminal_and_remedies_stand_below() -> None:
    check = warn("clocks", "this machine's clock is off by a lot", "keep it right with chrony, or the like")
    assert list(lines(check, Screen())) == [
        "! clocks        this machine's clock is off by a lot",
        "                keep it right with chrony, or the like",
    ]
    assert list(lines(check, Screen(width=42))) == [
        "! clocks        this machine's clock is",
        "                off by a lot",
        "                keep it right with",
        "                chrony, or the like",
    ]
    assert list(lines(error("use", "\x1b[2Jgone", ""), Screen(colours=True))) == [
        "\x1b[31m✗\x1b[0m use           \\x1b[2Jgone"
    ]


def test_the_worst_verdict_is_that_of_all() -> None:
    well, odd, bad = ok("a", "b"), warn("a", "b", "c"), error("a", "b", "c")
    assert (worst([well]), worst([well, odd]), worst([odd, bad, well])) == ("ok", "warn", "error")
    assert summary([well]) == "all is well"
    assert summary([well, odd, odd, bad]) == "1 error, 2 warnings"


def test_the_document_for_programs(url: str, capsys: Said) -> None:
    found = told(capsys, url)
    assert found["all"]["url"] == url
    assert found["all"]["verdict"] == "ok"
    assert found["claim"]["verdict"] == "ok"
    assert found["claim"]["remedy"] == ""


# --- which store ----------------------------------------------------------------------------------------------------


def test_the_store_of_the_environment_is_meant_unless_one_is_given(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setenv("CRONCE_URL", url)
    assert told(capsys)["store"]["says"] == f"{url}, named by $CRONCE_URL"


def test_a_store_that_would_be_private_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    monkeypatch.delenv("CRONCE_URL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    found = told(capsys, code=1)
    assert found["open"]["verdict"] == "error"
    assert found["open"]["says"].startswith("inside Kubernetes there is no default store")
    assert found["all"]["url"] is None


def test_a_dead_store_is_a_line_and_an_exit_code_of_its_own(capsys: Said) -> None:
    found = told(capsys, "postgresql://me:secret@127.0.0.1:1/cronce", code=75)
    assert found["all"]["url"] == "postgresql://me:***@127.0.0.1:1/cronce"
    assert found["reach"]["verdict"] == "error"
    assert "refused" in found["reach"]["says"]
    assert found["reach"]["remedy"] == "check that it runs, and that this machine can reach it"
    assert main(["doctor", "postgresql://me:secret@127.0.0.1:1/cronce"]) == 75
    said = capsys.readouterr()
    assert "secret" not in said.out + said.err
    assert said.out.endswith("\n\n1 error\n")


def test_a_store_that_needs_a_person_is_an_error(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "cronce.db").write_text("this is a letter, and no database at all, though it is long enough for one")
    found = told(capsys, f"sqlite:///{tmp_path}/cronce.db", code=1)
    assert found["open"]["verdict"] == "error"
    assert "is not an SQLite database" in found["open"]["says"]


def test_what_is_no_store_is_a_line_a_summary_and_an_exit_code_of_its_own(capsys: Said) -> None:
    found = told(capsys, "mongodb://me:secret@h/x", code=2)
    assert found["all"]["url"] == "mongodb://me:***@h/x"
    assert found["store"]["verdict"] == "error"
    assert found["store"]["says"] == "'mongodb://me:***@h/x': no store is called 'mongodb'"
    assert found["store"]["remedy"].startswith("known: etcd, ")
    assert main(["doctor", "mongodb://me:secret@h/x"]) == 2
    said = capsys.readouterr()
    assert "✓ store" not in said.out
    assert said.out.endswith("\n\n1 error\n")
    assert said.err == ""


def test_the_store_may_be_given_as_everywhere_but_not_twice(url: str, capsys: Said) -> None:
    assert told(capsys, "--store", url)["store"]["says"] == url
    assert main(["doctor", url, "--store", url]) == 2
    twice = "the store is named twice; give URL, --store URL, --crontab FILE or --unit FILE"
    assert capsys.readouterr().err == f"cronce doctor: {twice}\n"


# --- what has burned others, on real servers ------------------------------------------------------------------------


def verdicts(found: dict[str, dict[str, str]]) -> dict[str, str]:
    """All that is not well."""
    return {name: check["verdict"] for name, check in found.items() if check["verdict"] != "ok" and name != "all"}


def test_a_redis_that_keeps_nothing(valkey: Valkey, capsys: Said) -> None:
    found = told(capsys, f"{valkey.url}?namespace=doctor-{os.getpid()}", code=1)
    assert verdicts(found)["durable"] == "error"
    assert verdicts(found)["promises"] == "warn"
    assert found["claim"]["verdict"] == found["tidy"]["verdict"] == "ok"


def test_a_redis_that_was_found_empty_and_one_that_was_begun_on_purpose(valkey: Valkey, capsys: Said) -> None:
    url = f"{valkey.url}?namespace=doctor-life-{os.getpid()}"
    found = told(capsys, url, code=1)["life"]
    assert found["verdict"] == "warn"
    assert found["says"].startswith("it was empty at 20")
    assert found["says"].endswith(" UTC and may have lost data: slots up to then stay closed")
    assert (
        found["remedy"]
        == "if it is new, later slots run; `cronce rerun JOB --from INSTANT --to INSTANT` runs earlier ones"
    )
    assert main(["store", "init", url]) == 0
    capsys.readouterr()
    assert "life" not in told(capsys, url, code=1)


def test_a_mysql_that_may_only_be_read(mariadb: MariaDb, capsys: Said) -> None:
    open_store(mariadb.url).close()
    with pymysql.connect(host="127.0.0.1", port=mariadb.port, user="root") as admin, admin.cursor() as sql:
        sql.execute("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'secret'")
        sql.execute("GRANT SELECT ON cronce.* TO reader@'%'")
    found = told(capsys, mariadb.url.replace("root@", "reader:secret@"), code=1)
    assert verdicts(found) == {"proof": "error"}
    assert "lacks a privilege; let an administrator run" in found["proof"]["says"]
    assert found["tidy"]["says"] == "nothing was written"


def test_a_redis_that_evicts(capsys: Said) -> None:
    with Valkey(*DURABLE, "--maxmemory-policy", "allkeys-lru") as server:
        init(server.url)
        assert verdicts(told(capsys, server.url, code=1)) == {"eviction": "error"}


def test_a_replica_and_a_master_that_fails_over(capsys: Said) -> None:
    with Valkey(*DURABLE) as master, closing(master.replica()) as replica:
        found = told(capsys, replica.url, code=1)
        assert verdicts(found) == {"open": "error"}
        assert "is a replica" in found["open"]["says"]
        init(master.url)
        assert verdicts(told(capsys, master.url)) == {"failover": "warn", "partition": "warn"}


def test_a_redis_that_is_well(capsys: Said) -> None:
    with Valkey(*DURABLE) as server:
        init(server.url)
        assert verdicts(told(capsys, server.url)) == {}


def test_a_postgresql_that_does_not_wait_for_its_disk(capsys: Said) -> None:
    with Postgres(synchronous_commit="off") as server:
        found = told(capsys, server.url)
        assert verdicts(found) == {}
        assert found["durable"]["says"] == (
            "synchronous_commit is off here; cronce turns it on for each of its own writes"
        )
        with server.admin() as admin:
            admin.execute("ALTER SYSTEM SET fsync = off")
            admin.execute("SELECT pg_reload_conf()")
            wait_until(lambda: admin.execute("SHOW fsync").fetchone() == ("off",))
        assert verdicts(told(capsys, server.url, code=1)) == {"durable": "error", "promises": "warn"}


def test_a_postgresql_behind_a_pooler(pgbouncer: PgBouncer, capsys: Said) -> None:
    found = told(capsys, f"{pgbouncer.url}?schema=doctor_{os.getpid()}")
    assert found["pooler"]["says"].startswith("a pooler such as PgBouncer is in between")
    assert found["claim"]["verdict"] == found["fence"]["verdict"] == "ok"


# --- a path that is misspelled ----------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: Said) -> None:
    """It made the folder and the file, and said that all is well."""
    url = f"sqlite:///{tmp_path}/typo.db"
    checks = told(capsys, url, code=1)
    assert checks["open"]["says"] == (
        f"there is no file {tmp_path}/typo.db, and cronce did not create one; if the store is new,"
        f" `cronce store init {url}` creates it; else check the path"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_a_folder_that_is_not_there_is_not_made_nor_is_the_folder(tmp_path: Path, capsys: Said) -> None:
    """It said that `store init` creates it, which failed."""
    checks = told(capsys, f"sqlite:///{tmp_path}/typo/cronce.db", code=1)
    assert checks["open"]["says"] == (
        f"there is no store at {tmp_path}/typo/cronce.db: the directory {tmp_path}/typo does not exist; create it, or"
        " check the path"
    )
    assert list(tmp_path.iterdir()) == []


# --- what cron and systemd use ----------------------------------------------------------------------------------------

EXEC = "cronce exec sync --schedule '@hourly' -- /bin/true"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The store of this shell."""
    url = f"sqlite:///{tmp_path}/shell.db"
    open_store(url).close()
    monkeypatch.setenv("CRONCE_URL", url)
    return url


def test_the_store_of_a_crontab_is_checked_and_not_that_of_the_shell(
    shell: str, url: str, tmp_path: Path, capsys: Said
) -> None:
    """All was green, on another store than the one that cron used."""
    file = tmp_path / "crontab.txt"
    file.write_text(f"CRONCE_URL={url}\n@hourly {EXEC}\n@daily /bin/other\n@daily {EXEC}\n")
    checks = told(capsys, "--crontab", str(file))
    assert checks["all"]["url"] == url
    assert checks["crontab"]["says"] == f"line 2, line 4 use {url}, which no other host sees"
    assert checks["store"]["says"] == url
    assert checks["claim"]["verdict"] == "ok"
    assert checks["shell"]["says"] == f"this shell uses another store, {shell}: `cronce runs` shows that"


def test_a_crontab_of_two_stores_is_an_error(shell: str, url: str, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "crontab.txt"
    file.write_text(f"CRONCE_URL={shell}\n@hourly {EXEC}\n@daily {EXEC.replace(' --', f' --store {url} --', 1)}\n")
    checks = told(capsys, "--crontab", str(file), code=1)
    assert checks["crontab"]["says"] == "it uses 2 stores, so a slot can run once in each"
    assert "shell" not in checks


def test_a_crontab_of_the_system_names_users(shell: str, tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "cron.d").mkdir()
    file = tmp_path / "cron.d" / "shop"
    file.write_text(f"CRONCE_URL={shell}\n@hourly nobody-here {EXEC}\n")
    checks = told(capsys, "--crontab", str(file), code=1)
    refused = "line 2: when cron runs it, cronce will refuse it: 'nobody-here' is not a user of this machine"
    assert checks["crontab"]["says"] == refused


def test_a_crontab_without_us_is_refused(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "crontab.txt").write_text("@daily /bin/other\n")
    assert main(["doctor", "--crontab", str(tmp_path / "crontab.txt")]) == 2
    assert "runs `cronce exec`; `cronce deploy crontab wrap` wraps its lines in it" in capsys.readouterr().err
    assert main(["doctor", "--crontab", str(tmp_path / "none"), "--unit", "x"]) == 2
    assert "the store is named twice" in capsys.readouterr().err


def test_the_store_of_a_unit_is_checked(shell: str, url: str, tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "env").write_text(f"# the store\nCRONCE_URL={url}\n")
    file = tmp_path / "cronce-sync.service"
    file.write_text(f"[Service]\nEnvironment=A=b 'C=d e'\nEnvironmentFile=-{tmp_path}/env\nExecStart={EXEC}\n")
    checks = told(capsys, "--unit", str(file))
    assert checks["all"]["url"] == url
    assert checks["unit"]["says"] == f"{file} uses {url}, which no other host sees"

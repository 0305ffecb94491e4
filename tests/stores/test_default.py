"""Which store is used when none is named, and where the default is refused."""

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.errors import StorePrivate, StoreReadOnly, StoreUnusable
from cronce.stores.default import DEFAULT, GIVEN, Chosen, choose, make_way, open_chosen, pinned
from tests.stores import tables

TMPFS = tables.DOCKER + "630 612 0:70 / /scratch rw,relatime - tmpfs tmpfs rw\n"
PODMAN = tables.DOCKER.replace("- overlay overlay", "- fuse.fuse-overlayfs fuse-overlayfs")
ZFS = tables.DOCKER.replace("- overlay overlay", "- zfs pool/docker/f00")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine's root directory, with nothing in it."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    return home


def config(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


# --- the order ---


def test_what_is_given_comes_before_everything(home: Path, root: Path) -> None:
    config(root / "etc/cronce.toml", 'url = "memory:"')
    chosen = choose("sqlite:///mine.db", {"HOME": str(home), "CRONCE_URL": "memory:"}, root=root)
    assert chosen == Chosen("sqlite:///mine.db", GIVEN)


@pytest.mark.parametrize("scheme", ["sqlite", "SQLite"])
def test_a_file_stays_the_same_when_the_process_goes_elsewhere(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = pinned(Chosen(f"{scheme}:///mine.db?timeout=2", GIVEN))
    assert chosen == Chosen(f"sqlite:///{tmp_path}/mine.db?timeout=2", GIVEN)


def test_then_the_environment_then_the_users_config_then_the_machines(home: Path, root: Path) -> None:
    environ = {"HOME": str(home)}
    machine = config(root / "etc/cronce.toml", 'url = "redis://machine"')
    assert choose(None, environ, root=root) == Chosen("redis://machine", str(machine))
    user = config(home / ".config/cronce.toml", '# ours\nurl = "redis://user"\n')
    assert choose(None, environ, root=root) == Chosen("redis://user", str(user))
    assert choose(None, {**environ, "CRONCE_URL": "redis://set"}, root=root) == Chosen("redis://set", "$CRONCE_URL")


def test_xdg_directories_come_before_the_home(home: Path, root: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": "/var/lib/ada"}
    file = "/var/lib/ada/cronce/cronce.db"
    assert choose(None, environ, root=root) == Chosen(f"sqlite:///{file}", DEFAULT, file)
    named = config(tmp_path / "cronce.toml", 'url = "memory:"')
    assert choose(None, environ, root=root) == Chosen("memory:", str(named))


@pytest.mark.parametrize("odd", ["", "relative/state"])
def test_an_xdg_directory_that_is_empty_or_relative_is_as_good_as_unset(home: Path, root: Path, odd: str) -> None:
    chosen = choose(None, {"HOME": str(home), "XDG_STATE_HOME": odd, "XDG_CONFIG_HOME": odd}, root=root)
    assert chosen.url == f"sqlite:///{home}/.local/state/cronce/cronce.db"


def test_without_a_home_the_password_database_knows_it(root: Path) -> None:
    file = f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/cronce/cronce.db"
    expected = Chosen(f"sqlite:///{file}", DEFAULT, file)
    environ = {"XDG_CONFIG_HOME": "/nowhere"}
    assert choose(None, environ, root=root) == expected
    assert choose(None, {**environ, "HOME": ""}, root=root) == expected


def test_a_user_that_nobody_knows_is_told_what_to_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1_000_650_000)
    with pytest.raises(StoreUnusable, match=r"no home directory for a store; use another store: CRONCE_URL=sqlite:"):
        choose(None, {}, root=root)


def test_a_variable_that_is_set_to_nothing_is_no_choice(home: Path, root: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"\$CRONCE_URL is set but empty"):
        choose(None, {"HOME": str(home), "CRONCE_URL": ""}, root=root)


# --- config files ---


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o666])
def test_a_config_that_others_may_read_is_refused_with_the_line_that_mends_it(
    home: Path, root: Path, mode: int
) -> None:
    path = config(root / "etc/cronce.toml", 'url = "postgresql://ada:secret@db/jobs"', mode)
    with pytest.raises(StoreUnusable, match=rf"run `chmod o-rwx {path}`") as refused:
        choose(None, {"HOME": str(home)}, root=root)
    assert "secret" not in str(refused.value)
    subprocess.run(["chmod", "o-rwx", path], check=True)
    assert choose(None, {"HOME": str(home)}, root=root).url == "postgresql://ada:secret@db/jobs"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("url: postgresql://ada:secret@db", r"is not TOML: .*\(at line 1, column 4\); write it like url = "),
        ('url = "secret', r"is not TOML: .*; write it like url = "),
        ("\xff", r"is not TOML: "),
        ("", r'names no store; write url = "postgresql://…" into it'),
        ("url = 3", r"names no store"),
        ('url = ""', r"names no store"),
        ('url = "sqlite:///cronce.db"', r"names a file without its directory.*; write sqlite:////PATH/cronce.db"),
        ('url = "memory:"\nurls = ["secret"]\nbeat = 3', r"has 'beat', 'urls', .* correct or remove it$"),
        ('[store]\nurl = "secret"', r"has 'store', and cronce knows only url and \[alerts\]; did you mean url\?$"),
        ('ulr = "postgresql://ada:secret@db"', r"has 'ulr', .* did you mean url\?$"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(home: Path, root: Path, text: str, says: str) -> None:
    path = home / ".config/cronce.toml"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o600)
    with pytest.raises(StoreUnusable, match=says) as refused:
        choose(None, {"HOME": str(home)}, root=root)
    assert str(refused.value).startswith(str(path))
    assert "secret" not in str(refused.value)


def test_a_config_that_this_user_cannot_read_is_not_passed_over(home: Path, root: Path) -> None:
    (home / ".config/cronce.toml").mkdir()
    with pytest.raises(StoreUnusable, match=r"names the store, but this user cannot read it \(Is a directory\)"):
        choose(None, {"HOME": str(home)}, root=root)


# --- the default ---


def test_choosing_makes_nothing_and_opening_makes_the_whole_way_private(home: Path, root: Path) -> None:
    chosen = choose(None, {"HOME": str(home)}, root=root)
    assert list(home.iterdir()) == [home / ".config"]
    open_chosen(chosen).close()
    way = [home / ".local", home / ".local/state", home / ".local/state/cronce"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in way] == [0o700] * 3
    assert (way[-1] / "cronce.db").exists()
    open_chosen(chosen).close()


def test_a_home_with_an_odd_name_is_found_again(tmp_path: Path, root: Path) -> None:
    home = tmp_path / "Ada Löwe? 100%#"
    chosen = choose(None, {"HOME": str(home)}, root=root)
    open_chosen(chosen).close()
    assert chosen.file == f"{home}/.local/state/cronce/cronce.db"
    assert (home / ".local/state/cronce/cronce.db").exists()


def test_a_directory_that_a_user_named_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="does not exist"):
        open_chosen(Chosen(f"sqlite:///{tmp_path}/a/c.db", GIVEN))
    assert not (tmp_path / "a").exists()


def test_a_way_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match=r"/file cannot be created \(File exists\); create it first, or use"):
        make_way(tmp_path / "file/a")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreUnusable, match=r"/dangling cannot be created \(File exists\)"):
        make_way(tmp_path / "dangling/a")

    def refuse(path: str, **_how: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StoreReadOnly, match=r"/a; give them permission, or use another store: "):
        make_way(tmp_path / "a")


# --- where the default would be private ---


@pytest.mark.parametrize("table", [tables.DOCKER, PODMAN, ZFS, ""])
@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "container"])
def test_in_a_container_a_file_on_no_volume_is_refused(root: Path, mark: str, table: str) -> None:
    environ = {"HOME": "/home/ada"}
    if mark == "container":
        environ["container"] = "podman"
    else:
        (root / mark).parent.mkdir(exist_ok=True)
        (root / mark).touch()
    with pytest.raises(StorePrivate) as refused:
        choose(None, environ, root=root, mount_table=table)
    said = str(refused.value)
    assert "/home/ada/.local/state/cronce/cronce.db, would not be on a volume" in said
    assert "three containers with three private files would each run everything" in said
    assert "CRONCE_URL=postgresql://USER:PASSWORD@HOST/DATABASE" in said
    assert "is enough for one machine, but not for several" in said
    assert choose("memory:", environ, root=root, mount_table=table).url == "memory:"


@pytest.mark.parametrize(
    ("state", "table", "allowed"),
    [
        ("/data", tables.DOCKER, True),
        ("/app", tables.DOCKER, False),
        ("/shared", tables.DOCKER, True),  # a network file system: refused by the store itself, with its own words
        ("/scratch", TMPFS, False),
        ("/dev", tables.DOCKER, False),
        ("/var/lib/ada", tables.PLAIN, True),  # a real disk, whatever once left a /.dockerenv on it
        ("/home/ada", tables.BTRFS, True),
        ("/srv/ada", tables.BTRFS, False),
    ],
)
def test_in_a_container_what_counts_is_the_mount(root: Path, state: str, table: str, allowed: bool) -> None:
    (root / ".dockerenv").touch()
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/nowhere", "XDG_STATE_HOME": state}
    if allowed:
        assert choose(None, environ, root=root, mount_table=table).url == f"sqlite:///{state}/cronce/cronce.db"
    else:
        with pytest.raises(StorePrivate, match="not be on a volume"):
            choose(None, environ, root=root, mount_table=table)


def test_outside_of_containers_any_file_system_will_do(root: Path) -> None:
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/nowhere"}
    assert choose(None, environ, root=root, mount_table=tables.DOCKER).is_default
    assert choose(None, environ, root=root, mount_table="").is_default


@pytest.mark.parametrize("by_variable", [True, False])
def test_inside_kubernetes_there_is_no_default_not_even_on_a_volume(root: Path, by_variable: bool) -> None:
    environ = {"XDG_STATE_HOME": "/data", "HOME": "/home/ada", "XDG_CONFIG_HOME": "/nowhere"}
    if by_variable:
        environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    else:
        (root / "var/run/secrets/kubernetes.io").mkdir(parents=True)
    with pytest.raises(StorePrivate) as refused:
        choose(None, environ, root=root, mount_table=tables.DOCKER)
    said = str(refused.value)
    assert said.startswith(
        "inside Kubernetes there is no default store: /data/cronce/cronce.db would be this pod's own"
    )
    assert "three pods with three private files would each run everything" in said
    assert "CRONCE_URL=postgresql://USER:PASSWORD@HOST/DATABASE" in said
    assert "A file on a volume that all share is not enough" in said


def test_choosing_is_light() -> None:
    """Under cron it happens every minute: no TOML without a file, no SQLite for another store, no pathlib at all."""
    code = (
        "import sys; from cronce.stores.default import choose; choose(None, {'CRONCE_URL': 'redis://x'});"
        " choose(None, {'HOME': '/home/ada', 'XDG_CONFIG_HOME': '/nowhere'}, root='/nowhere');"
        " print([name for name in ('tomllib', 'sqlite3', 'pwd', 'json', 'pathlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

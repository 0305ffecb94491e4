"""Who is told of alerts: by the command line, the environment or the config, each from the first that names it."""

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.cli import add_arguments
from cronce.cli.watch import ALERT_ARGUMENTS, WATCH_SETTINGS, AlertTargets, told
from cronce.errors import BadInput, StoreUnusable
from cronce.monitor.destinations import CommandDestination, Webhook
from cronce.monitor.settings import Settings
from cronce.stores.default import choose

ALL = """
url = "memory:"
[alerts]
webhook = ["https://h/a", "https://h/b"]
command = ["echo", "on call"]
ping = "https://hc/{job}"
threshold = "critical"
schedulers = 3
late = "2m"
"""


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "etc").mkdir()
        (root / "home/.config").mkdir(parents=True)

    def write(self, text: str, path: str = "etc/cronce.toml", mode: int = 0o600) -> None:
        file = self.root / path
        file.write_text(text)
        file.chmod(mode)

    def told(self, *options: str, **environ: str) -> AlertTargets:
        parser = ArgumentParser()
        add_arguments(parser, ALERT_ARGUMENTS)
        add_arguments(parser, WATCH_SETTINGS)
        home = {"HOME": str(self.root / "home")}
        return told(parser.parse_args(options), {**home, **environ}, root=self.root)

    def digests(self, *options: str, **environ: str) -> list[str]:
        return [one.digest for one in self.told(*options, **environ).destinations]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def hooks(*urls: str) -> list[str]:
    return [Webhook(url).digest for url in urls]


def test_nothing_is_said_and_nobody_is_told(machine: Machine) -> None:
    assert machine.told() == AlertTargets((), None, Settings())


def test_the_config_says_it_all(machine: Machine) -> None:
    machine.write(ALL)
    given = machine.told()
    assert machine.digests() == [*hooks("https://h/a", "https://h/b"), CommandDestination(["echo", "on call"]).digest]
    assert {one.threshold for one in given.destinations} == {"critical"}
    assert given.ping == "https://hc/{job}"
    assert given.settings == Settings(schedulers=3, late=timedelta(minutes=2))


def test_what_is_said_first_counts_and_the_rest_stays(machine: Machine) -> None:
    machine.write(ALL)
    page = CommandDestination(["echo", "on call"]).digest
    assert machine.digests(CRONCE_ALERT="https://h/c https://h/d") == [*hooks("https://h/c", "https://h/d"), page]
    assert machine.digests("--alert", "https://h/e", CRONCE_ALERT="https://h/c") == [*hooks("https://h/e"), page]
    words = machine.digests("--alert-command", "printf 'the bell'")
    assert words == [*hooks("https://h/a", "https://h/b"), CommandDestination(["printf", "the bell"]).digest]
    assert machine.told(CRONCE_PING="https://x/").ping == "https://x/"
    assert machine.told("--ping", "https://y/", CRONCE_PING="https://x/").ping == "https://y/"
    assert machine.told("--late", "5s", "--superseded", "1h").settings == Settings(
        schedulers=3, late=timedelta(seconds=5), superseded=timedelta(hours=1)
    )


def test_the_users_config_comes_before_the_machines(machine: Machine) -> None:
    machine.write(ALL)
    machine.write('[alerts]\nwebhook = "https://h/mine"', "home/.config/cronce.toml")
    assert machine.digests() == hooks("https://h/mine")


def test_a_config_for_alerts_alone_names_no_store(machine: Machine) -> None:
    machine.write('url = "memory:"')
    machine.write('[alerts]\nwebhook = "https://h/mine"', "home/.config/cronce.toml")
    chosen = choose(environ={"HOME": str(machine.root / "home")}, root=machine.root)
    assert (chosen.url, chosen.source) == ("memory:", str(machine.root / "etc/cronce.toml"))


@pytest.mark.parametrize("mode", [0o604, 0o602])
def test_a_config_that_others_may_read_is_refused(machine: Machine, mode: int) -> None:
    machine.write(ALL, mode=mode)
    with pytest.raises(StoreUnusable, match="open to every user"):
        machine.told()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("webhok = 'https://hush'", "webhok is not known"),
        ("webhook = 3", "webhook must be a URL, or a list"),
        ("webhook = 'hush'", "needs a URL"),
        ("command = ['./nix.sh', 'hush']", "'./nix.sh' cannot be started"),
        ("command = ['no-such-pager']", "'no-such-pager' is not on the PATH"),
        ("command = 'hush now'", "command must be a list of words"),
        ("ping = 3", "ping must be a URL"),
        ("threshold = 'hush'", "threshold must be one of critical, warning, info"),
        ("late = 'hushly'", "hushly"),
        ("schedulers = 'three'", "schedulers must be 1 or more"),
    ],
)
def test_a_slip_in_the_config_is_refused(machine: Machine, line: str, says: str) -> None:
    machine.write(f"[alerts]\n{line}")
    with pytest.raises(BadInput, match=says) as caught:
        machine.told()
    assert "hush'" not in str(caught.value)


def test_alerts_that_are_no_table_are_refused(machine: Machine) -> None:
    machine.write('alerts = "https://h/a"')
    with pytest.raises(StoreUnusable, match=r"write \[alerts\]"):
        machine.told()

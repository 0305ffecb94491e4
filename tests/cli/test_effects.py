"""effects and resolve, from the command line: what people are told of doubts, and that their word is acted on once. The
doubts are real: a process is killed in the midst of its steps."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from cronce import Cronce, InDoubt, InProgress, Run
from cronce.cli import main
from cronce.cli.session import Actor
from cronce.clock import SystemClock, boot_id
from cronce.model import ABSENT, Fence, Mark, Slot, Write, effect_cells, machine_cell
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Machine, encode_notice
from cronce.protocol.record import Maker, Outcome, Record, State, decode, encode
from cronce.runtime.ledger import Begin
from cronce.runtime.node import Node as RealDesk
from cronce.runtime.node import host_name
from cronce.runtime.operations import Operator
from cronce.runtime.queries import slot_named
from cronce.stores import open_store
from tests.cli.person import default_store
from tests.house.wait import wait_until
from tests.runtime.shelf import HandClock, HandNode, Wire

CLOCK = SystemClock()
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SLOT = Slot("billing", NOON)


class Said:
    """What the command says to somebody: on stdout, and on stderr."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._capsys = url, capsys
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        with default_store(self._url):
            assert main(words) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def say(url: str, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(url, capsys)


def put(url: str, *cells: tuple[str, Record, Mark]) -> None:
    with closing(open_store(url)) as store:
        epoch = store.load([]).epoch
        verdicts = store.swap([Write(key, ABSENT, encode(record), mark) for key, record, mark in cells], epoch.seen)
        assert all(verdict.refused is None for verdict in verdicts.verdicts)


def doubtful(reason: str = "Boom: no answer") -> Record:
    ended = NOON + timedelta(seconds=3)
    return Record(State.CLOSED, 1, "n", "web-1", started=NOON, finished=ended, outcome=Outcome.UNKNOWN, reason=reason)


def done(result: str = "") -> Record:
    ended = NOON + timedelta(seconds=1)
    return Record(State.CLOSED, 1, "n", "web-2", started=NOON, finished=ended, outcome=Outcome.SUCCEEDED, result=result)


def step(key: str) -> str:
    return f"{effect_cells(SLOT.key)}{key}"


def record(url: str, slot: str) -> Record:
    with closing(open_store(url)) as store:
        (cell,) = store.load([slot_named(slot).cell]).cells
    return decode(cell.value) if cell.version else Record(State.DUE)


# --- effects ---


def test_what_is_in_doubt_is_listed_with_who_and_why(url: str, say: Said) -> None:
    put(
        url,
        (step("charge:7"), doubtful(), Mark.ATTENTION),
        (step("charge:8"), done('{"id":8}'), Mark.CLOSED),
        ("once/order-mail/42", doubtful("its holder web-1 did not renew its lease"), Mark.ATTENTION),
    )
    hint = (
        "each of these may have happened or not: find out, then run `cronce resolve EFFECT done` or `cronce"
        " resolve EFFECT retry`"
    )
    assert (
        say("effects")
        == f"""\
effect                                 state     since                 holder  why
billing@2026-03-29T12:00:00Z/charge:7  in doubt  2026-03-29T12:00:00Z  web-1   Boom: no answer
order-mail/42                          in doubt  2026-03-29T12:00:00Z  web-1   its holder web-1 did not renew its lease

{hint}
"""
    )
    assert say("effects", "order-mail").count("in doubt  ") == 1
    assert say("effects", SLOT.key, "--all").splitlines()[2] == (
        "billing@2026-03-29T12:00:00Z/charge:8  done      2026-03-29T12:00:00Z  web-2"
    )
    assert say("effects", f"{SLOT.key}/charge:8").splitlines()[1].split()[1] == "done"
    assert say("effects", "-n", "1").splitlines()[2] == "there are more; a higher -n shows them"


def test_effects_as_json(url: str, say: Said) -> None:
    put(url, (step("charge:7"), doubtful(), Mark.ATTENTION), (step("charge:8"), done('{"id":8}'), Mark.CLOSED))
    document = say.json("effects", "billing", "--all")
    assert document == {
        "effects": [
            {
                "effect": f"{SLOT.key}/charge:7",
                "state": "in doubt",
                "started": "2026-03-29T12:00:00Z",
                "finished": "2026-03-29T12:00:03Z",
                "holder": "web-1",
                "reason": "Boom: no answer",
                "result": None,
            },
            {
                "effect": f"{SLOT.key}/charge:8",
                "state": "done",
                "started": "2026-03-29T12:00:00Z",
                "finished": "2026-03-29T12:00:01Z",
                "holder": "web-2",
                "reason": None,
                "result": {"id": 8},
            },
        ],
        "more": False,
    }
    assert say.json("effects", "-n", "1", "--all")["more"] is True


def test_where_nothing_is_in_doubt_that_is_said(url: str, say: Said) -> None:
    put(url, (step("charge:8"), done(), Mark.CLOSED))
    assert say("effects").startswith("no effect is in doubt, and none in progress, in sqlite:///")
    assert say("effects", SLOT.key).startswith("no effect is in doubt")
    assert say("effects", "billing").startswith("no effect is in doubt")
    assert say("effects", "billing@2026-03-29T13:00:00Z", "--all").startswith("no effect is on record in sqlite:///")
    assert say.json("effects") == {"effects": [], "more": False}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (
            ("bilingg",),
            1,
            "no job is called 'bilingg', and no effect of this name is on record",
        ),
        (("bilingg@2026-03-29T12:00:00Z",), 1, "no job is called 'bilingg'"),
        (("order-mail/43",), 1, "there is no record of order-mail/43"),
        (("order-mail/",), 2, "is not an effect; an effect is written like billing@2026"),
        (("billing@noon",), 2, "is not a slot"),
        (("a b",), 2, "cannot be a name"),
        (("-n", "0"), 2, "-n must be from 1 to 10,000, not 0"),
    ],
)
def test_what_nobody_can_mean_is_refused(url: str, say: Said, words: tuple[str, ...], code: int, why: str) -> None:
    put(url, (step("charge:8"), done(), Mark.CLOSED))
    say("effects", *words, code=code)
    assert why in say.err


def test_hostile_text_is_shown_as_what_it_is(url: str, say: Said) -> None:
    """A key is what somebody's message said: what is to be copied into a shell is quoted."""
    evil = "$(reboot);'x \u202e\x1b]0;pwned\x07\nnext"
    with Cronce(url) as cron:
        cron.job("* * * * *", name="billing", start_within="3650d")(lambda: None).at(NOON)()
    put(url, (step(evil), doubtful("\x1b[31mred\r\nred"), Mark.ATTENTION))
    for words in (("effects",), ("effects", "billing"), ("why", SLOT.key), ("why", "billing")):
        page = say(*words)
        assert not set(page) & set("\x1b\x07\r\u202e")
        assert "\nnext" not in page
    line = next(line for line in say("why", SLOT.key).splitlines() if "it happened:" in line)
    *_, name, verdict = shlex.split(line.partition("it happened:")[2])
    assert verdict == "done"
    assert name.startswith(f"{SLOT.key}/$(reboot);'x ")


# --- resolve ---


def test_an_effect_is_resolved_by_its_name(url: str, say: Said) -> None:
    put(url, *((step(key), doubtful(), Mark.ATTENTION) for key in ("charge:7", "charge:8")))
    name = f"{SLOT.key}/charge:7"
    assert say("resolve", name, "done", "--result", '{"id": 7}', "--by", "ada") == f"{name} counts as done\n"
    document = say.json("resolve", name, "done", "--result", '{"id": 7}')
    assert document.pop("finished") > "2026-03-29T12:00:03Z"
    assert document == {
        "effect": name,
        "state": "done",
        "started": "2026-03-29T12:00:00Z",
        "holder": "web-1",
        "reason": "resolved: by ada",
        "result": {"id": 7},
        "stopped": [],
        "rerun": None,
    }
    say("resolve", name, "done", code=1)
    assert 'with the result {"id":7}: there is nothing to resolve' in say.err
    assert (
        say("resolve", f"{SLOT.key}/charge:8", "retry")
        == f"{SLOT.key}/charge:8 is marked as not done; the next run will do it\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((SLOT.key, "done", "--result", "7"), "only an effect has a result"),
        ((f"{SLOT.key}/charge:7", "retry", "--result", "7"), "has no result yet"),
        ((f"{SLOT.key}/charge:7", "done", "--result", "NaN"), "--result must be JSON, and 'NaN' is not"),
        ((f"{SLOT.key}/charge:7", "done", "--result", "{"), "--result must be JSON, and '{' is not"),
        ((f"{SLOT.key}/charge:7", "done", "--result", f'"{"x" * 65_535}"'), "at most 64 KB of JSON"),
        ((f"{SLOT.key}/", "done"), "is not an effect"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused(url: str, say: Said, words: tuple[str, ...], why: str) -> None:
    put(url, (step("charge:7"), doubtful(), Mark.ATTENTION))
    say("resolve", *words, code=2)
    assert why in say.err
    assert say("effects").count(" in doubt  ") == 1


def test_what_a_live_run_is_at_is_left_to_it(url: str, say: Said) -> None:
    with Cronce(url) as cron:
        name = f"{SLOT.key}/charge:7"

        def charge() -> None:
            assert say("effects").splitlines()[1].split()[:3] == [name, "in", "progress"]
            for verdict in ("done", "retry"):
                say("resolve", name, verdict, code=1)
                assert f"{name} is in progress: " in say.err
            assert "its effects: 1 in progress" in say("why", SLOT.key)

        @cron.job("* * * * *", name="billing", start_within="3650d")
        def billing(run: Run) -> None:
            run.once("charge:7", charge, per="slot")

        billing.at(NOON)()
    assert "its effects: 1 done" in say("why", SLOT.key)


def test_a_slot_that_a_step_stopped_says_so_and_goes_on_when_somebody_has_looked(url: str, say: Said) -> None:
    called: list[str] = []

    def charge(what: str) -> str:
        called.append(what)
        if called == ["a", "b"]:
            raise ConnectionError("no answer")
        return what

    with Cronce(url) as cron:

        @cron.job(at=NOON, name="billing", start_within="3650d")
        def billing(run: Run) -> None:
            for what in "abc":
                run.once(f"charge {what}", charge, what, per="slot")

        with pytest.raises(InDoubt):
            billing.at(NOON)()
        name = f"{SLOT.key}/charge b"
        story = say("why", SLOT.key).splitlines()
        assert story[0].startswith(f"{SLOT.key} was stopped at ")
        assert (
            f"and is unknown until a person has checked it: nobody knows whether {name} happened: ConnectionError: no"
            in story[0]
        )
        assert story[3] == "  its effects: 1 in doubt, 1 done"
        assert story[4].startswith(f"    {name}, begun by ")
        assert story[4].endswith(": ConnectionError: no answer")
        assert story[5:8] == [
            f"      it happened:  cronce resolve '{name}' done",
            f"      it did not:   cronce resolve '{name}' retry",
            "  the end of its output:",
        ]
        assert story[8] == "    | Traceback (most recent call last):"
        assert 'raise ConnectionError("no answer")' in "\n".join(story[9:])
        assert "1 effect is in doubt: `cronce status effects billing` lists them." in say("why", "billing")
        document = say.json("why", SLOT.key)
        (slot,) = document["slots"]
        assert (document["effects"], say.json("why", "billing")["effects"]["counts"]["in doubt"]) == (None, 1)
        assert slot["effects"]["counts"] == {
            "in doubt": 1,
            "unreadable": 0,
            "in progress": 0,
            "not done": 0,
            "done": 1,
        }
        assert [one["effect"] for one in slot["effects"]["in_doubt"]] == [name]
        say("resolve", SLOT.key, "retry", code=1)
        assert f"{SLOT.key} is kept in doubt by an effect: resolve the effect first." in say.err
        assert f"if it did not, `cronce resolve '{name}' retry`. Then `cronce rerun {SLOT.key}` continues" in say.err
        assert say("resolve", SLOT.key, "retry", "--force") == f"{SLOT.key} is due again\n"
        assert say.err.splitlines()[0] == "cronce resolve: some of its effects are still in doubt:"
        with pytest.raises(InDoubt):  # as it said
            billing.at(NOON)()
        assert called == ["a", "b"]
        assert say("resolve", name, "retry") == (
            f"{name} is marked as not done; the next run will do it; `cronce rerun {SLOT.key}` continues its slot\n"
        )
        assert say.json("resolve", name, "retry")["rerun"] == SLOT.key
        assert "  its effects: 1 not done, 1 done; none is in doubt any more\n" in f"{say('why', SLOT.key)}\n"
        assert say("resolve", SLOT.key, "retry") == f"{SLOT.key} is due again\n"
        assert say.err == ""
        billing.at(NOON)()
    assert called == ["a", "b", "b", "c"]


@pytest.fixture
def watched(store: Wire, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The command acts on a store and a clock that are turned by hand: while it sleeps, time passes."""
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        clock.turn(seconds)

    @contextmanager
    def acting(_options: object) -> Iterator[Actor]:
        node = RealDesk(store, clock, lambda: store, lambda _event: None)
        yield Actor(node, Operator(node.ledger, "ada"))

    monkeypatch.setattr("cronce.cli.effects.acting", acting)
    monkeypatch.setattr("cronce.cli.session.time.sleep", nap)
    return naps


def test_a_lease_that_has_passed_is_believed_of_a_clock_that_was_watched(
    node: HandNode, clock: HandClock, watched: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    node.do(node.ledger.exchange_effects((), [Begin("once/order-mail/42", node.ledger.nonce())]))
    clock.turn(31)
    assert main(["resolve", "order-mail/42", "done"]) == 0
    out, err = capsys.readouterr()
    assert out == "order-mail/42 counts as done\n"
    assert err == (
        "cronce resolve: order-mail/42 was begun, and the run's lease expired at 2026-03-29T12:00:30Z; cronce watches"
        " the store's clock for 30s before it accepts this: until 2026-03-29T12:01:02Z\n"
    )
    assert sum(watched) == 30


def test_a_clock_that_does_not_run_evenly_is_not_watched_for_ever(
    node: HandNode, clock: HandClock, watched: list[float], capsys: pytest.CaptureFixture[str], store: Wire
) -> None:
    node.do(node.ledger.exchange_effects((), [Begin("once/order-mail/42", node.ledger.nonce())]))
    clock.turn(100)

    def step(_call: str) -> str:
        clock.back += 0.4  # the store's clock runs at less than half the speed
        return ""

    store.lose = step
    assert main(["resolve", "order-mail/42", "retry", "--force"]) == 1
    assert "and it did not run steadily; `cronce doctor` checks the clocks" in capsys.readouterr().err
    assert sum(watched) == 60.5  # twice the lease, and a look


def test_a_retry_is_refused_while_the_holder_may_be_alive_unless_somebody_has_looked(url: str, say: Said) -> None:
    """Of the issue: it was only paused, and charged when it woke up, after another had."""
    begun = doubtful()._replace(outcome=Outcome.LOST, holder="web-7:12:f4240")
    put(
        url,
        ("once/charge/invoice:7", begun, Mark.ATTENTION),
        ("once/charge/invoice:8", begun._replace(holder=f"{host_name()}:{os.getpid()}:ffffffffffff"), Mark.ATTENTION),
        ("once/charge/invoice:9", begun._replace(holder=f"{host_name()}:{os.getpid()}:1"), Mark.ATTENTION),
    )
    say("resolve", "charge/invoice:7", "retry", code=1)
    assert "Check on web-7: `ps -o pid,stat,lstart,cmd -p 12`" in say.err
    assert "`cronce resolve charge/invoice:7 retry --force`" in say.err
    say("resolve", "charge/invoice:8", "retry", code=1)
    assert f"Process {os.getpid()} on this machine is still alive" in say.err
    not_done = "is marked as not done; the next run will do it\n"
    assert say("resolve", "charge/invoice:9", "retry") == f"charge/invoice:9 {not_done}"  # known to be gone
    assert say("resolve", "charge/invoice:7", "retry", "--force") == f"charge/invoice:7 {not_done}"
    assert say("resolve", "charge/invoice:8", "done", "--by", "ada") == "charge/invoice:8 counts as done\n"


def test_a_slot_that_was_lost_on_another_machine_is_rerun_when_somebody_has_looked(url: str, say: Said) -> None:
    """By design: from here nobody can see whether that process is dead or only paused."""
    lost = doubtful("not renewed")._replace(outcome=Outcome.LOST, holder="web-7:12:f4240")
    put(url, (SLOT.cell, lost, Mark.ATTENTION))
    for words in (("rerun", SLOT.key), ("resolve", SLOT.key, "retry")):
        say(*words, code=1)
        assert f"{SLOT.key} may still be in progress. web-7:12:f4240 did not renew its lease" in say.err
        assert (
            "cronce cannot see from here whether it is dead. Check on web-7: `ps -o pid,stat,lstart,cmd -p 12`"
            in say.err
        )
        assert "or run this command there. If it continues next to a new run, its work is done twice." in say.err
        assert f"When you are sure that it has ended: `cronce {' '.join(words)} --force`" in say.err
    assert say("rerun", SLOT.key, "--force") == f"{SLOT.key}#rerun-1\n"


def test_a_second_word_names_who_said_it_first_and_when(url: str, say: Said) -> None:
    put(url, ("once/charge/invoice:7", doubtful(), Mark.ATTENTION))
    words = ("resolve", "charge/invoice:7", "done", "--result", "1")
    assert say(*words, "--by", "ada", "--reason", "I looked") == "charge/invoice:7 counts as done\n"
    second = say(*words, "--by", "bob")
    assert second.startswith("charge/invoice:7 counts as done; already resolved by ada: I looked at 20")
    say("resolve", "charge/invoice:7", "done", "--result", "2", "--by", "bob", code=1)
    assert "charge/invoice:7 was done, resolved: by ada: I looked, at 20" in say.err


def test_a_word_is_taken_back_by_the_other_and_who_said_the_first_is_named(url: str, say: Said) -> None:
    """A wrong retry could not be taken back: `done` exited with 1, and the next slot charged again."""
    put(url, ("once/charge/invoice:7", doubtful(), Mark.ATTENTION))
    say("resolve", "charge/invoice:7", "retry", "--by", "ada")
    again = say("resolve", "charge/invoice:7", "retry", "--by", "bob")
    assert "; already resolved by ada at 20" in again
    done_after_all = say("resolve", "charge/invoice:7", "done", "--by", "bob", "--reason", "it is in the books")
    assert done_after_all.startswith("charge/invoice:7 counts as done; it was resolved as retry before, by ada at 20")
    taken_back = say("resolve", "charge/invoice:7", "retry", "--by", "cay")
    assert "; it was resolved as done before, by bob: it is in the books at 20" in taken_back
    (effect,) = say.json("effects", "charge/invoice:7")["effects"]
    words = "unknown: Boom: no answer, retried: by ada, resolved: by bob: it is in the books, retried: by cay"
    assert (effect["state"], effect["reason"]) == ("not done", words)


def test_done_by_a_persons_word_is_retried_only_if_the_holder_is_known_to_be_dead(url: str, say: Said) -> None:
    begun = doubtful()._replace(outcome=Outcome.LOST, holder="web-7:12:f4240")
    put(url, ("once/charge/invoice:7", begun, Mark.ATTENTION))
    say("resolve", "charge/invoice:7", "done", "--by", "ada")
    say("resolve", "charge/invoice:7", "retry", "--by", "bob", code=1)
    assert "Check on web-7" in say.err
    assert "it was resolved as done before, by ada" in say("resolve", "charge/invoice:7", "retry", "--force")


def test_slots_that_met_the_doubt_of_another_name_the_effect_and_are_offered_for_a_rerun(url: str, say: Said) -> None:
    """Of the slot that only met it nothing was said: neither the effect, nor the command, nor that it may go on."""
    doubt = "nobody knows whether forward/order:2 happened: OSError: no answer"
    maker = Maker(SLOT.cell, Fence(1, 1))
    met = [SLOT._replace(at=SLOT.at + timedelta(minutes=15 * number)) for number in range(3)]
    unknown = Record(State.CLOSED, 1, "n", "web-1", started=SLOT.at, outcome=Outcome.UNKNOWN, reason=doubt)
    put(
        url,
        ("once/forward/order:2", doubtful()._replace(under=maker), Mark.ATTENTION),
        ("once/forward/order:21", doubtful(), Mark.ATTENTION),
        *((slot.cell, unknown, Mark.ATTENTION) for slot in met),
        ("run/billing/2026-03-29T23:00:00Z", unknown._replace(reason="the store forgot"), Mark.ATTENTION),
    )
    assert [one["effect"] for one in say.json("effects", met[2].key)["effects"]] == ["forward/order:2"]
    say("resolve", met[2].key, "retry", code=1)
    assert "resolve the effect first" in say.err
    assert "`cronce resolve forward/order:2 done`" in say.err
    lines = say("resolve", "forward/order:2", "done").splitlines()
    assert lines[0].endswith("counts as done. It stopped 3 slots; to continue them:")
    assert lines[1:] == [f"  cronce rerun {slot.key}" for slot in met]
    assert say.json("resolve", "forward/order:2", "done")["stopped"] == [slot.key for slot in met]
    assert "is due again" in say("resolve", met[2].key, "retry")  # the effect does not keep it any more


def test_a_slot_that_met_several_doubts_lists_them_all_and_is_retried_only_when_none_is_left(
    url: str, say: Said
) -> None:
    """It knew the first: when that was resolved the slot was run again, and met the second."""
    names = ["forward/order:2", "forward/order:3", "forward/order:4 b"]
    told = f"nobody knows whether {names[0]} happened: OSError; nor of {names[1]} '{names[2]}'"
    unknown = Record(State.CLOSED, 1, "n", "web-1", started=SLOT.at, outcome=Outcome.UNKNOWN, reason=told)
    elsewhere = [(f"once/{name}", doubtful()._replace(under=None), Mark.ATTENTION) for name in names]
    put(url, *elsewhere, (SLOT.cell, unknown, Mark.ATTENTION))
    assert [one["effect"] for one in say.json("effects", SLOT.key)["effects"]] == names
    for name, others in zip(names, (True, True, False), strict=True):
        say("resolve", SLOT.key, "retry", code=1)
        assert f"resolve the effect first. If it happened, run `cronce resolve {quote(name)} done`" in say.err
        assert (f"`cronce status effects {SLOT.key}` lists the others" in say.err) == others
        assert f"`cronce rerun {SLOT.key}` continues its slot" in say("resolve", name, "done")
    assert "is due again" in say("resolve", SLOT.key, "retry")


def test_one_help_and_one_page_say_when_to_resolve_and_when_to_rerun(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["resolve", "--help"])
    told = capsys.readouterr().out
    assert "resolve records what you found out; it runs nothing. rerun runs a slot once more" in told
    assert "An effect that is in doubt: resolve it first." in told
    page = (
        (Path(__file__).parents[2] / "docs" / "reference" / "commands-act.md")
        .read_text()
        .partition("## cronce resolve")[2]
    )
    assert "| what is in doubt | say | and then |" in page.partition("\n## ")[0]


# --- a process that is killed in the midst of it ---

JOBS = {f"{on_lost}_{verdict}": on_lost for on_lost in ("skip", "rerun") for verdict in ("done", "retry")}
ORDERS = ("done", "retry")
DOOMED = """
    import sys, threading
    from datetime import datetime
    from cronce import Cronce

    url, slot, book, *jobs = sys.argv[1:]
    cron = Cronce(url)

    def charge(what):
        with open(book, "a") as lines:
            lines.write(what + "\\n")
        threading.Event().wait()

    def doomed(name, on_lost):
        @cron.job(at=datetime.fromisoformat(slot), name=name, on_lost=on_lost, lease="6s", start_within="1h")
        def body(run):
            run.once("charge", charge, name, per="slot")
        return body.at(datetime.fromisoformat(slot))

    mail = cron.idempotent("order-mail", key=lambda order: order)(charge)
    for job in jobs:
        name, on_lost = job.split("=")
        threading.Thread(target=doomed(name, on_lost)).start()
    for order in ("done", "retry"):
        threading.Thread(target=mail, args=[order]).start()
"""


class Book:
    """What was charged, by whichever process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def charge(self, what: str) -> str:
        with self.path.open("a") as lines:
            lines.write(f"{what}\n")
        return f"charged {what}"

    @property
    def charged(self) -> Counter[str]:
        return Counter(self.path.read_text().split() if self.path.exists() else [])


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "book")


@pytest.fixture
def at(url: str, book: Book, tmp_path: Path) -> datetime:
    """A slot whose runs, one of each job, and keys were begun by a process that is gone."""
    slot = CLOCK.wall().replace(microsecond=0)
    program = tmp_path / "doomed.py"
    program.write_text(textwrap.dedent(DOOMED))
    jobs = [f"{name}={on_lost}" for name, on_lost in JOBS.items()]
    process = subprocess.Popen([sys.executable, program, url, slot.isoformat(), book.path, *jobs])
    try:
        wait_until(lambda: book.charged == Counter([*JOBS, *ORDERS]))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
    return slot


def half_a_minute_passes(url: str) -> None:
    """For the keys, as if: their leases have passed, and this machine has watched the store's clock all the while."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        (name,) = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%until%'").fetchone()
        moved = file.execute(f"UPDATE {name} SET until = until - 60000000 WHERE key LIKE 'once/%'").rowcount
        file.commit()
        assert moved == len(ORDERS)
    with closing(open_store(url)) as store:
        now, boot = store.load([]).now, CLOCK.boot()
        ago = (timedelta(seconds=seconds) for seconds in range(60, 0, -10))
        samples = (Sample(boot - span.total_seconds(), boot - span.total_seconds(), now - span) for span in ago)
        value = encode_notice(Machine(boot_id(), tuple(samples)))
        (cell,) = store.load([machine_cell(boot_id())]).cells
        store.swap([Write(cell.key, cell.version, value, Mark.FREE)], store.load([]).epoch.seen)


def test_what_a_killed_process_left_in_doubt_is_charged_once_or_again_as_somebody_says(
    url: str, say: Said, book: Book, at: datetime
) -> None:
    slots = {name: Slot(name, at).key for name in JOBS}
    results: dict[str, str] = {}

    def declare(cron: Cronce, name: str, on_lost: Any) -> None:
        @cron.job(at=at, name=name, on_lost=on_lost, lease="6s", start_within="1h")
        def body(run: Run) -> None:
            results[name] = run.once("charge", book.charge, name, per="slot")

    with Cronce(url) as cron:
        for name, on_lost in JOBS.items():
            declare(cron, name, on_lost)
        mail = cron.idempotent("order-mail", key=lambda order: order)(book.charge)
        with pytest.raises(InProgress):
            mail("done")
        assert cron.start().wait_ready(60)
        outcomes = {name: Outcome.LOST if on_lost == "skip" else Outcome.UNKNOWN for name, on_lost in JOBS.items()}
        wait_until(lambda: {name: record(url, slot).outcome for name, slot in slots.items()} == outcomes)
        half_a_minute_passes(url)
        found = {one["effect"]: one for one in say.json("effects")["effects"]}
        assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(
            [f"{slot}/charge" for slot in slots.values()] + [f"order-mail/{order}" for order in ORDERS], "in doubt"
        )
        for name, slot in slots.items():
            story = say("why", slot)
            assert "  its effects: 1 in doubt\n" in story
            assert f"it happened:  cronce resolve {slot}/charge done\n" in story
            effect = found[f"{slot}/charge"]
            assert effect["reason"] == (
                "its run is over" if name.startswith("skip") else f"its run at {effect['holder']} is over"
            )
        for name, slot in slots.items():
            verdict = name.partition("_")[2]
            words = ["--result", '"as ada says"'] if verdict == "done" else []
            said = "counts as done" if verdict == "done" else "is marked as not done; the next run will do it"
            assert say("resolve", f"{slot}/charge", verdict, *words) == (
                f"{slot}/charge {said}; `cronce rerun {slot}` continues its slot\n"
            )
            assert say("rerun", slot, "--wait") == f"{slot}#rerun-1\nsucceeded\n"
        for order in ORDERS:
            say("resolve", f"order-mail/{order}", order)
            assert say.err == ""  # there was nothing to wait for
        assert [mail(order) for order in ORDERS] == [None, "charged retry"]
        assert say("effects").startswith("no effect is in doubt")
    assert book.charged == {name: 1 if name.endswith("done") else 2 for name in (*JOBS, *ORDERS)}
    assert results == {name: "as ada says" if name.endswith("done") else f"charged {name}" for name in JOBS}

"""Jobs that live in the store: what may be said of them, and how they change, whoever else changes them too."""

import json
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce.errors import BadInput, BadRecord, CronceError
from cronce.model import ABSENT, BOARD_JOBS, Cell, Mark, Slot, Write, bundle_cells, holder_cell, stored_cell
from cronce.protocol.commands import Queue
from cronce.protocol.notices import Bundle, Holder, Stored, decode_stored, encode_notice
from cronce.protocol.record import Job
from cronce.protocol.specs import declared
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.flow import Flow, Request, Swap, Timed
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.stored_jobs import MAX_DEFINITION, add, definitions, edit, listed, parsed, remove, spelled
from cronce.schedule import Cron, Every, Window
from tests.runtime.shelf import SLOT, START, HandNode, Wire, claim, terms

MAIL = {"every": "15m", "function": "tasks:mail"}


class Person:
    """Somebody at a node, who adds, edits and removes."""

    def __init__(self, node: HandNode, name: str) -> None:
        self.node, self.hand = node, Operator(node.ledger, name)

    def add(self, name: str = "mail", **words: Any) -> Stored | None:
        return self.node.do(add(self.hand, name, words or MAIL))

    def edit(self, name: str = "mail", **changes: Any) -> Stored | None:
        return self.node.do(edit(self.hand, name, changes))

    def remove(self, name: str = "mail") -> Stored | None:
        return self.node.do(remove(self.hand, name))


@pytest.fixture
def ada(node: HandNode) -> Person:
    return Person(node, "ada")


@pytest.fixture
def bob(other: HandNode) -> Person:
    return Person(other, "bob")


def cell(store: Wire, key: str = stored_cell("mail")) -> Cell:
    return store.load([key]).cells[0]


def stored(store: Wire) -> Stored:
    return decode_stored(cell(store).value)


def words(store: Wire) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(stored(store).definition or "null")
    return said


def put(store: Wire, key: str, value: str, mark: Mark = Mark.OPEN, ttl: timedelta | None = None) -> None:
    (verdict,) = store.swap([Write(key, cell(store, key).version, value, mark, ttl=ttl)], (0, 0)).verdicts
    if verdict.refused:
        epoch = store.load([]).epoch
        (verdict,) = store.swap([Write(key, cell(store, key).version, value, mark, ttl=ttl)], epoch.seen).verdicts
    assert verdict.refused is None


def held_up(person: Person, flow: Flow[Any], meanwhile: Callable[[], object]) -> Any:
    """The flow, up to its first swap; then what another does meanwhile; then the rest."""
    waited = False

    def asked() -> Generator[Request, Timed, Any]:
        nonlocal waited
        reply: Timed | None = None
        try:
            while True:
                request = next(flow) if reply is None else flow.send(reply)
                if isinstance(request, Swap) and not waited:
                    waited = True
                    meanwhile()
                reply = yield request
        except StopIteration as stop:
            return stop.value

    result = person.node.do(asked())
    assert waited
    return result


# --- adding ---------------------------------------------------------------------------------------------------------


def test_what_is_added_is_on_record_with_who_and_when_and_on_the_board_in_the_same_swap(
    ada: Person, store: Wire
) -> None:
    store.clock.turn(5)
    board = cell(store, BOARD_JOBS).version
    store.calls.clear()
    new = ada.add(every="15m", function="tasks:mail", on_lost="rerun", timeout=None)
    assert store.calls.count("swap") == 1
    definition = '{"every":"15m","function":"tasks:mail","on_lost":"rerun"}'
    assert new == stored(store) == Stored(1, definition, "ada", START + timedelta(seconds=5))
    assert cell(store, BOARD_JOBS).version > board


def test_to_add_the_same_again_changes_nothing_however_it_is_written(ada: Person, bob: Person, store: Wire) -> None:
    ada.add()
    before = cell(store), cell(store, BOARD_JOBS)
    assert bob.add(every="900s", function="tasks:mail", overlap="skip", on_lost="skip") is None
    assert (cell(store), cell(store, BOARD_JOBS)) == before


def test_to_add_another_of_the_same_name_is_refused(ada: Person, bob: Person, store: Wire) -> None:
    ada.add()
    before = cell(store)
    with pytest.raises(
        BadInput,
        match=r"a job mail with another definition; use `cronce jobs"
        r" edit` to change it",
    ):
        bob.add(every="15m", function="tasks:post")
    assert cell(store) == before


def test_of_two_who_add_at_once_one_wins(ada: Person, bob: Person, store: Wire) -> None:
    with pytest.raises(BadInput, match="another definition"):
        held_up(ada, add(ada.hand, "mail", {"every": "1h", "function": "tasks:post"}), bob.add)
    assert stored(store)[::2] == (1, "bob")
    assert held_up(ada, add(ada.hand, "post", MAIL), lambda: bob.add("post", **MAIL)) is None


def test_what_python_can_say_is_kept_as_text(ada: Person, store: Wire) -> None:
    start = datetime(2026, 4, 1, tzinfo=UTC)
    rule = Window(Cron("0 3 * * *", "Europe/Berlin", fold="both"), start)
    ada.add(
        schedule=rule, command=("./sync.sh", "--all"), timeout=timedelta(minutes=10), keep={"failed": timedelta(90)}
    )
    assert words(store) == {
        "schedule": "0 3 * * *",
        "tz": "Europe/Berlin",
        "gap": "run",
        "fold": "both",
        "start": "2026-04-01T00:00:00Z",
        "command": ["./sync.sh", "--all"],
        "timeout": "10m",
        "keep": {"failed": "90d"},
    }
    definition = parsed("mail", stored(store).definition or "")
    assert (definition.job.schedule, definition.command) == (rule, ("./sync.sh", "--all"))
    ada.add("post", at=start, function="tasks:post")
    ada.add("pack", schedule=Every("1h"), function="tasks:pack")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"every": "15m"}, "give what to run"),
        ({"every": "15m", "function": "a:b", "command": ["c"]}, "give what to run"),
        ({"function": "tasks:mail"}, "give when to run it"),
        ({"every": "15m", "schedule": "@hourly", "function": "a:b"}, "one schedule"),
        ({"schedule": "* * *", "function": "a:b"}, "field"),
        ({"every": "15m", "function": "a:b", "retry": 3}, "did you mean retries"),
        ({"every": "15m", "function": "a:b", "turns": 10**9}, "turns"),
        ({"every": "15m", "function": "a:b", "name": "other"}, "is not valid"),
        ({"every": "15m", "function": "a:b", "payload": {1, 2}}, "cannot be written as JSON"),
        ({"every": "15m", "function": "a:b", "payload": float("nan")}, "cannot be kept"),
        ({"every": "15m", "function": "a:b", "isolate": "yes"}, "isolate must be true or false"),
        ({"every": "15m", "command": ["a"], "isolate": True}, "isolate must be true or false"),
        ({"every": "15m", "command": "sync.sh --all"}, "a list of words"),
        ({"every": "15m", "command": ["a", 7]}, "every word"),
        ({"every": "15m", "command": ["a\0b"]}, "every word"),
        ({"every": "15m", "command": [""]}, "a list of words"),
        ({"every": "15m", "function": "tasks"}, "is not a function"),
        ({"every": "15m", "function": "tasks:os.system"}, "is not a function"),
        ({"every": "15m", "function": "..tasks:mail"}, "is not a function"),
        ({"every": "15m", "function": "tasks:mail:more"}, "is not a function"),
        ({"every": "15m", "function": "os;x:mail"}, "is not a function"),
        ({"every": "15m", "function": 7}, "is not a function"),
        ({"every": ["15m"], "function": "a:b"}, "not a duration"),
        ({"every": "15m", "function": "a:b", "tz": ["UTC"]}, "."),
        ({"every": "15m", "command": ["a", "x" * MAX_DEFINITION]}, "characters"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_meant_is_refused_and_nothing_written(
    ada: Person, store: Wire, said: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        ada.node.do(add(ada.hand, "mail", said))
    assert cell(store).version == ABSENT


def test_a_name_that_cannot_be_a_key_is_refused(ada: Person) -> None:
    with pytest.raises(BadInput, match="cannot be a name"):
        ada.add("mail/../job")


# --- a name that is in code -----------------------------------------------------------------------------------------


def live(store: Wire, node: HandNode, job: Declaration) -> None:
    """A process carries the job, and lives for half a minute."""
    digest, _ = job.spec
    node.do(node.ledger.jobs.edit(job.name, lambda known, now: declared(known or Job(now), job.spec, now)))
    bundle(store, {job.name: digest})


def bundle(store: Wire, digests: dict[str, str]) -> None:
    """A process carries these versions."""
    holder = Holder("web-7", "carried", "both", 10, {}, START, "1.0")
    put(store, f"{bundle_cells('carried')}000", encode_notice(Bundle(digests)), Mark.FREE)
    put(store, holder_cell("web-7"), encode_notice(holder), ttl=timedelta(seconds=30))


def test_the_same_is_added_again_while_a_process_carries_it_whose_version_is_not_on_record_yet(
    ada: Person, store: Wire, node: HandNode
) -> None:
    """It was refused as if it were in that process's code."""
    assert ada.add()
    bundle(store, {"mail": "1-of-mail"})
    assert ada.add() is None


def test_a_job_that_a_live_process_has_in_its_code_is_not_added(ada: Person, store: Wire, node: HandNode) -> None:
    live(store, node, declare("mail", "@hourly"))
    with pytest.raises(BadInput, match="live processes have a job mail in their code"):
        ada.add()
    assert ada.add("post", **MAIL) is not None
    store.clock.turn(30)
    assert ada.add() is not None


def test_what_live_processes_carry_because_it_was_in_the_store_may_be_added_again(
    ada: Person, store: Wire, node: HandNode
) -> None:
    ada.add()
    live(store, node, parsed("mail", stored(store).definition or "").job._replace(revision=1))
    ada.remove()
    assert ada.add() == stored(store)
    assert stored(store).revision == 3


# --- changing -------------------------------------------------------------------------------------------------------


def test_an_edit_changes_what_it_says_and_leaves_the_rest(ada: Person, bob: Person, store: Wire) -> None:
    ada.add(schedule="0 3 * * *", tz="Europe/Berlin", function="tasks:mail", isolate=True, retries=3, timeout="1m")
    bob.edit(retries=5, timeout=None)
    assert words(store) == {
        "schedule": "0 3 * * *", "tz": "Europe/Berlin", "function": "tasks:mail", "isolate": True, "retries": 5,
    }  # fmt: skip
    assert stored(store)[::2] == (2, "bob")
    bob.edit(every="2h", command=["./mail.sh"])
    assert words(store) == {"every": "2h", "command": ["./mail.sh"], "retries": 5}
    bob.edit(schedule=Cron("0 4 * * *", "Europe/Paris"), function="tasks:mail")
    assert words(store) == {
        "schedule": "0 4 * * *", "tz": "Europe/Paris", "gap": "run", "fold": "first", "function": "tasks:mail",
        "retries": 5,
    }  # fmt: skip


def test_an_edit_that_changes_nothing_writes_nothing(ada: Person, store: Wire) -> None:
    ada.add()
    before = cell(store), cell(store, BOARD_JOBS)
    assert ada.edit(every="900s") is None
    assert (cell(store), cell(store, BOARD_JOBS)) == before


def test_an_edit_that_cannot_be_meant_is_refused(ada: Person, store: Wire) -> None:
    ada.add()
    before = cell(store)
    with pytest.raises(BadInput, match="retries"):
        ada.edit(retries=-1)
    with pytest.raises(BadInput, match="give what to run"):
        ada.edit(function=None)
    assert cell(store) == before


def test_no_edit_is_lost_to_another_at_the_same_time(ada: Person, bob: Person, store: Wire) -> None:
    ada.add()
    held_up(ada, edit(ada.hand, "mail", {"retries": 3}), lambda: bob.edit(timeout="1m"))
    assert words(store) == {**MAIL, "retries": 3, "timeout": "1m"}
    assert stored(store)[::2] == (3, "ada")


def test_what_is_removed_while_it_is_edited_stays_removed(ada: Person, bob: Person, store: Wire) -> None:
    ada.add()
    with pytest.raises(CronceError, match="removed from the store by bob at 2026-03-29T12:00:00Z"):
        held_up(ada, edit(ada.hand, "mail", {"retries": 3}), bob.remove)
    assert stored(store) == Stored(2, None, "bob", START)


def test_what_was_removed_is_on_record_and_its_revision_rises_when_it_comes_back(
    ada: Person, bob: Person, store: Wire, node: HandNode
) -> None:
    ada.add()
    board = cell(store, BOARD_JOBS).version
    assert bob.remove() == stored(store) == Stored(2, None, "bob", START)
    assert cell(store, BOARD_JOBS).version > board
    assert node.do(definitions()) == []
    for again in (ada.remove, ada.edit):
        with pytest.raises(
            CronceError, match="mail was removed from the store by bob at 2026-03-29T12:00:00Z; `cronce jobs add`"
        ):
            again()
    ada.add()
    assert stored(store)[::2] == (3, "ada")
    assert [one[:2] for one in node.do(definitions())] == [("mail", 3)]


def test_what_is_not_there_cannot_be_changed_and_the_close_one_is_named(ada: Person, node: HandNode) -> None:
    ada.add("mailing", **MAIL)
    for change in (ada.edit, ada.remove):
        with pytest.raises(CronceError, match="no job is called 'mailin'; did you mean 'mailing'"):
            change("mailin")
    claim(node)
    with pytest.raises(CronceError, match="billing is called by a crontab line, or by your code, and not kept in"):
        ada.remove("billing")
    with pytest.raises(CronceError, match="no job is called 'other'; `cronce jobs` lists those of this store"):
        ada.remove("other")


def test_a_job_that_schedulers_run_is_changed_in_code(ada: Person, node: HandNode) -> None:
    node.do(node.ledger.jobs.edit("nightly", lambda _job, now: Job(now, firing="v1")))
    with pytest.raises(CronceError, match="nightly is declared in code, and not kept in the store: change it there"):
        ada.remove("nightly")


@pytest.mark.parametrize("fate", ["before", "after"])
def test_a_change_whose_reply_is_lost_is_made_once(ada: Person, store: Wire, fate: str) -> None:
    changes: list[Callable[[], Stored | None]] = [ada.add, lambda: ada.edit(retries=3), ada.remove]
    for number, change in enumerate(changes, start=1):
        store.lose_next("swap", fate)
        assert change() == stored(store)
        assert stored(store).revision == number


def test_going_back_to_an_earlier_definition_is_another_version(ada: Person, store: Wire, node: HandNode) -> None:
    digests = []
    changes: list[Callable[[], Stored | None]] = [
        ada.add, lambda: ada.edit(retries=3), lambda: ada.edit(retries=None),
    ]  # fmt: skip
    for change in changes:
        change()
        (one,) = node.do(definitions())
        digests.append(parsed(one.name, one.definition).job._replace(revision=one.revision).spec[0])
    assert words(store) == MAIL
    assert len(set(digests)) == 3
    assert "revision" not in parsed("mail", spelled("mail", MAIL)).job.spec[1]


@pytest.mark.parametrize("value", ['{"v":99,"revision":1}', "no JSON", "[" * 100_000], ids=["newer", "garbage", "deep"])
def test_a_cell_that_cannot_be_read_is_not_written_over(ada: Person, store: Wire, node: HandNode, value: str) -> None:
    put(store, stored_cell("mail"), value)
    before = cell(store)
    for change in (ada.add, ada.edit, ada.remove):
        with pytest.raises(BadRecord, match="stored/mail"):
            change()
    assert cell(store) == before
    (one,) = node.do(definitions())
    assert (one.name, one.revision, one.definition) == ("mail", 0, "")
    assert "stored/mail" in one.trouble
    ((line,),) = (node.do(listed())[1],)
    assert (line.seen.job, line.seen.trouble) == (None, one.trouble)


def test_a_definition_of_other_words_may_be_removed_or_mended(ada: Person, store: Wire) -> None:
    said = json.dumps({**MAIL, "colour": "blue"})
    put(store, stored_cell("mail"), encode_notice(Stored(4, said, "eve", START)))
    with pytest.raises(BadInput, match="colour"):
        ada.edit(retries=3)
    ada.edit(colour=None)
    assert (stored(store).revision, words(store)) == (5, MAIL)
    put(store, stored_cell("mail"), encode_notice(Stored(6, said, "eve", START)))
    assert ada.remove() == Stored(7, None, "ada", START)


def test_more_definitions_than_a_page_are_all_read(store: Wire, node: HandNode) -> None:
    text = encode_notice(Stored(1, spelled("mail", MAIL), "ada", START))
    node.do(node.ledger.jobs.learn("mail"))
    writes = [Write(stored_cell(f"mail-{number:04}"), ABSENT, text, Mark.OPEN) for number in range(1001)]
    store.swap(writes, store.load([]).epoch.seen)
    assert [one.name for one in node.do(definitions())] == [f"mail-{number:04}" for number in range(1001)]


# --- looking --------------------------------------------------------------------------------------------------------


def test_jobs_in_the_store_are_listed_before_anybody_has_carried_them_and_after_they_were_removed(
    ada: Person, store: Wire, node: HandNode
) -> None:
    ada.add()
    _, (line,) = node.do(listed())
    assert (line.seen.name, line.seen.schedule, line.next) == ("mail", Every("15m"), START + timedelta(minutes=15))
    assert line.stored == stored(store)
    ada.remove()
    assert node.do(listed())[1] == []
    ada.add()
    live(store, node, parsed("mail", stored(store).definition or "").job._replace(revision=3))
    ada.remove()
    _, (line,) = node.do(listed())
    assert (line.next, line.stored) == (None, Stored(4, None, "ada", START))


def test_a_job_that_went_from_the_store_into_code_is_one_in_code(ada: Person, store: Wire, node: HandNode) -> None:
    ada.add()
    ada.remove()
    live(store, node, declare("mail", every="15m"))
    _, (line,) = node.do(listed())
    assert (line.next, line.stored) == (START + timedelta(minutes=15), None)


# --- what a run is given --------------------------------------------------------------------------------------------


def test_each_run_is_given_the_payload_of_its_job_unless_it_was_asked_for_with_another(node: HandNode) -> None:
    given = terms(payload='{"month":3}', overlap="allow")
    asked = Slot("billing", SLOT.at, "again")
    node.do(node.ledger.put({asked: Queue(by="ada", payload="7", first=asked.at)}))
    grants = node.do(node.ledger.claim([Wanted(SLOT, given), Wanted(asked, given)]))
    assert [grant.record.payload for grant in grants if isinstance(grant, Grant)] == ['{"month":3}', "7"]
    job = parsed("mail", spelled("mail", {**MAIL, "payload": {"month": 3}})).job
    assert job.terms(Slot("mail", SLOT.at), inferred=False).payload == '{"month":3}'

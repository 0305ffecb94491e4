"""What stands in a cell: every version stays readable, a newer one and anything else is refused with its key."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadRecord
from cronce.model import Fence
from cronce.protocol import codec, notices, record
from cronce.protocol.lease import Sample
from cronce.protocol.notices import (
    Alert,
    Beats,
    Bundle,
    Delivery,
    Doubled,
    ForeignJob,
    ForeignScheduler,
    Handled,
    Holder,
    LastBeat,
    Machine,
    Observed,
    Prevented,
    RecordedPosition,
    Refusals,
    Refused,
    Stored,
)
from cronce.protocol.record import Act, Job, Maker, Outcome, Past, Purging, Record, SpanRecord, Spec, State, Turn
from tests.protocol import strategies
from tests.protocol.examples import examples

ONE = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
TWO = datetime(2026, 3, 29, 2, 0, 0, 250, tzinfo=UTC)


class Kind(NamedTuple):
    """One kind of value: its codec, random ones, and how version 6 spells one with every field set. For ever."""

    encode: Callable[[Any], str]
    decode: Callable[[str, str], Any]
    random: st.SearchStrategy[Any]
    value: object
    golden: str


RUN = Kind(
    record.encode,
    record.decode,
    strategies.records,
    Record(
        State.CLOSED,
        grant=2,
        nonce="5f2c",
        holder="web-2:71:9",
        lease=timedelta(seconds=30),
        on_lost="rerun",
        attempts=3,
        failures=1,
        turn="turn/billing/0",
        ask="replaced",
        started=ONE,
        finished=TWO,
        outcome=Outcome.FAILED,
        reason="größer\n\0\udcff",
        past=(Past(Fence(7, 8), "web-1:70:9", ONE, "lapsed", TWO, TWO), Past(None, "", None, "")),
        output="3 rows\n",
        by="ada",
        payload='{"month":3}',
        key="billing@2026-03-29T00:00:00Z",
        progress=(3, 10),
        under=Maker("run/billing/2026-03-29T01:00:00Z", Fence(7, 9)),
        result='{"id":7}',
        keep=timedelta(days=1),
        joined=True,
        least=timedelta(seconds=45),
    ),
    r'{"v":6,"state":"closed","grant":2,"nonce":"5f2c","holder":"web-2:71:9","lease":30000000,"on_lost":"rerun",'
    r'"attempts":3,"failures":1,"turn":"turn/billing/0","ask":"replaced","started":1774746000000000,'
    r'"finished":1774749600000250,"outcome":"failed","reason":"gr\u00f6\u00dfer\n\u0000\udcff",'
    r'"past":[["00000000000007-000000000008","web-1:70:9",1774746000000000,"lapsed",1774749600000250,'
    r'1774749600000250],[null,"",null,"",null,null]],'
    r'"output":"3 rows\n","by":"ada","payload":"{\"month\":3}","key":"billing@2026-03-29T00:00:00Z","progress":[3,10],'
    r'"under":"run/billing/2026-03-29T01:00:00Z 00000000000007-000000000009","result":"{\"id\":7}","keep":86400000000,'
    r'"joined":true,"least":45000000}',
)
TURN = Kind(
    record.encode_turn,
    record.decode_turn,
    strategies.turns,
    Turn("run/billing/2026-03-29T01:00:00Z"),
    '{"v":6,"run":"run/billing/2026-03-29T01:00:00Z"}',
)
JOB = Kind(
    record.encode_job,
    record.decode_job,
    strategies.jobs,
    Job(
        ONE,
        paused=Act("ada", TWO, "deploy"),
        specs=(Spec("a1", ONE, "0 * * * *"), Spec("b2", TWO)),
        firing="b2",
        spans=(SpanRecord(ONE, TWO, 3, "paused"), SpanRecord(ONE, TWO, None, "edited")),
        purging=Purging(ONE, TWO),
        code="shop.jobs:billing",
    ),
    '{"v":6,"floor":1774746000000000,"paused":["ada",1774749600000250,"deploy"],'
    '"specs":[["a1",1774746000000000,"0 * * * *"],'
    '["b2",1774749600000250,""]],"firing":"b2","spans":[[1774746000000000,1774749600000250,3,"paused"],'
    '[1774746000000000,1774749600000250,null,"edited"]],"purging":[1774746000000000,1774749600000250],'
    '"code":"shop.jobs:billing"}',
)
HOLDER = Kind(
    notices.encode_notice,
    notices.decode_holder,
    strategies.holders,
    Holder(
        "web-1:70:9",
        "c3d4",
        "both",
        10,
        {"colour": "blue"},
        ONE,
        "1.0",
        True,
        True,
        timedelta(seconds=1),
        timedelta(milliseconds=-400),
        3,
        "2026a",
    ),
    '{"v":6,"holder":"web-1:70:9","bundle":"c3d4","role":"both","workers":10,"labels":{"colour":"blue"},'
    '"since":1774746000000000,"cronce":"1.0","draining":true,"gone":true,"every":1000000,"skew":-400000,"running":3,'
    '"tzdata":"2026a"}',
)
BUNDLE = Kind(
    notices.encode_notice,
    notices.decode_bundle,
    strategies.bundles,
    Bundle({"billing": "a1"}, {"billing": "shop.jobs:billing"}),
    '{"v":6,"specs":{"billing":"a1"},"code":{"billing":"shop.jobs:billing"}}',
)
ACT = Kind(
    record.encode_act,
    record.decode_act,
    strategies.acts,
    Act("ada", ONE, "deploy"),
    '{"v":6,"act":["ada",1774746000000000,"deploy"]}',
)
STORED = Kind(
    notices.encode_notice,
    notices.decode_stored,
    strategies.stored,
    Stored(3, '{"every":"15m"}', "ada", ONE),
    '{"v":6,"revision":3,"definition":"{\\"every\\":\\"15m\\"}","by":"ada","at":1774746000000000}',
)
MACHINE = Kind(
    notices.encode_notice,
    notices.decode_machine,
    strategies.machines,
    Machine("0f3a", (Sample(1.5, 1.75, ONE), Sample(31.0, 31.25, TWO)), "web-1", "2026a"),
    '{"v":6,"boot_id":"0f3a","samples":[[1.5,1.75,1774746000000000],[31.0,31.25,1774749600000250]],"host":"web-1",'
    '"tzdata":"2026a"}',
)
PREVENTED = Kind(
    notices.encode_notice,
    notices.decode_prevented,
    strategies.prevented,
    Prevented(7, {"2026-03-28": 3, "2026-03-29": 4}, ("f00d",)),
    '{"v":6,"total":7,"days":{"2026-03-28":3,"2026-03-29":4},"writes":["f00d"]}',
)
REFUSALS = Kind(
    notices.encode_notice,
    notices.decode_refusals,
    strategies.refusals,
    Refusals(7, (Refused("billing@2026-03-29T01:00:00Z", ONE, "held by web-1:70:9"),)),
    '{"v":6,"times":7,"recent":[["billing@2026-03-29T01:00:00Z",1774746000000000,"held by web-1:70:9"]]}',
)
POSITION = Kind(
    notices.encode_notice,
    notices.decode_position,
    strategies.positions,
    RecordedPosition(Fence(7, 8), '"2026-03"'),
    r'{"v":6,"fence":"00000000000007-000000000008","value":"\"2026-03\""}',
)
ALERT = Kind(
    notices.encode_notice,
    notices.decode_alert,
    strategies.alerts,
    Alert(
        "lost",
        "billing",
        "critical",
        "1 slot",
        ONE,
        TWO,
        3,
        {"a1": Delivery("cleared", None, TWO, 2)},
        "look",
        "host web-1",
        ("billing@2026-03-29T01:00:00Z",),
        ("charge/invoice:7",),
        Handled("ada", ONE, "later", TWO),
    ),
    '{"v":6,"kind":"lost","subject":"billing","severity":"critical","text":"1 slot","since":1774746000000000,'
    '"cleared":1774749600000250,"times":3,"deliveries":{"a1":["cleared",null,1774749600000250,2]},"remedy":"look",'
    '"cause":"host web-1","slots":["billing@2026-03-29T01:00:00Z"],"effects":["charge/invoice:7"],'
    '"handled":["ada",1774746000000000,"later",1774749600000250]}',
)
GUEST = Kind(
    notices.encode_notice,
    notices.decode_guest,
    strategies.guests,
    ForeignScheduler("web-1:70:9", "APScheduler", (ForeignJob("billing", "cron[minute='0']", ONE),)),
    '{"v":6,"holder":"web-1:70:9","kind":"APScheduler","jobs":[["billing","cron[minute=\'0\']",1774746000000000]]}',
)
BEATS = Kind(
    notices.encode_notice,
    notices.decode_beats,
    strategies.beats,
    Beats(timedelta(minutes=1), (LastBeat(ONE, "web-1:70"),), 7),
    '{"v":6,"every":60000000,"recent":[[1774746000000000,"web-1:70"]],"times":7}',
)
OBSERVED = Kind(
    notices.encode_notice,
    notices.decode_observed,
    strategies.observed,
    Observed(None, (LastBeat(ONE, "web-1"),), 7, 2, (Doubled("billing@2026-03-29T01:00:00Z", TWO, "web-2", "held"),)),
    '{"v":6,"window":null,"calls":[[1774746000000000,"web-1"]],"times":7,"doubled":2,'
    '"recent":[["billing@2026-03-29T01:00:00Z",1774749600000250,"web-2","held"]]}',
)
KINDS = {
    "alert": ALERT,
    "guest": GUEST,
    "beats": BEATS,
    "observed": OBSERVED,
    "run": RUN,
    "turn": TURN,
    "job": JOB,
    "holder": HOLDER,
    "bundle": BUNDLE,
    "act": ACT,
    "stored": STORED,
    "machine": MACHINE,
    "position": POSITION,
    "prevented": PREVENTED,
    "refusals": REFUSALS,
}

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# --- what we write, we read ---


@every_kind
def test_version_6_is_spelled_like_this_for_ever(kind: Kind) -> None:
    assert kind.encode(kind.value) == kind.golden


@every_kind
def test_version_6_is_readable_for_ever(kind: Kind) -> None:
    assert kind.decode(kind.golden, "k") == kind.value


def test_what_is_at_its_default_is_not_written() -> None:
    assert record.encode(Record(State.DUE)) == '{"v":6,"state":"due"}'
    assert record.decode('{"v":6,"state":"due"}') == Record(State.DUE)


@examples(40)
@given(st.data())
@every_kind
def test_what_is_written_is_read_back_whole(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(kind.random)
    text = kind.encode(value)
    assert text.isascii()  # whatever a store thinks of encodings
    assert kind.decode(text, "k") == value


# --- versions ---


@every_kind
def test_a_newer_version_is_refused_never_guessed(kind: Kind) -> None:
    newer = kind.golden.replace('"v":6', '"v":7')
    with pytest.raises(BadRecord, match=r"the cell 'k' has format 7, this cronce reads up to 6: upgrade cronce"):
        kind.decode(newer, "k")


@every_kind
@pytest.mark.parametrize("version", ["0", "-1", "true", "1.0", '"1"', "null", "[1]", "1e999"])
def test_a_version_that_never_was_is_refused(kind: Kind, version: str) -> None:
    _refused(kind, kind.golden.replace('"v":6', f'"v":{version}'))


def test_an_older_version_is_upgraded_step_by_step_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def owner_became_run(fields: dict[str, Any]) -> dict[str, Any]:
        return {"run": fields["owner"]}

    def run_grew_a_prefix(fields: dict[str, Any]) -> dict[str, Any]:
        return {"run": f"run/{fields['run']}"}

    monkeypatch.setattr(codec, "RECORD_VERSION", 3)
    monkeypatch.setattr(record, "RECORD_VERSION", 3)
    monkeypatch.setattr(codec, "UPGRADES", {1: owner_became_run, 2: run_grew_a_prefix})
    assert record.decode_turn('{"v":1,"owner":"a"}') == Turn("run/a")
    assert record.decode_turn('{"v":2,"run":"a"}') == Turn("run/a")
    assert record.decode_turn('{"v":3,"run":"a"}') == Turn("a")
    assert record.encode_turn(Turn("a")) == '{"v":3,"run":"a"}'
    _refused(TURN, '{"v":1,"nobody":"a"}')


def test_version_1_is_readable_for_ever() -> None:
    """It did not say when an earlier grant ended, nor what a run printed."""
    text = (
        '{"v":1,"state":"running","grant":2,"nonce":"5f2c","started":1774746000000000,'
        '"past":[["00000000000007-000000000008","web-1:70:9",1774746000000000,"lapsed"]]}'
    )
    past = (Past(Fence(7, 8), "web-1:70:9", ONE, "lapsed"),)
    assert record.decode(text) == Record(State.RUNNING, grant=2, nonce="5f2c", started=ONE, past=past)
    assert record.decode_turn('{"v":1,"run":"run/a"}') == Turn("run/a")
    _refused(RUN, text.replace('"past":[[', '"past":[7,['))


def test_version_2_is_readable_for_ever() -> None:
    """It did not say who paused a job, and a holder listed its jobs."""
    text = '{"v":2,"floor":1774746000000000,"paused":true,"specs":[],"firing":"","spans":[],"purging":null}'
    assert record.decode_job(text) == Job(ONE, paused=Act(""))
    assert record.decode_job(text.replace("true", "false")) == Job(ONE)
    held = notices.decode_holder('{"v":2,"holder":"web-1:70:9","specs":{"billing":"a1"}}')
    assert (held.holder, held.bundle) == ("web-1:70:9", "")
    assert record.decode('{"v":2,"state":"due"}') == Record(State.DUE)
    _refused(JOB, text.replace("true", "1"))


def test_version_3_is_readable_for_ever() -> None:
    """It knew no effects."""
    assert record.decode('{"v":3,"state":"due","progress":[3,10]}') == Record(State.DUE, progress=(3, 10))
    assert record.decode_turn('{"v":3,"run":"run/a"}') == Turn("run/a")


def test_version_4_is_readable_for_ever() -> None:
    """A holder did not say how often it beats, how its clock stands, nor how much runs there."""
    held = notices.decode_holder(
        '{"v":4,"holder":"web-1:70:9","bundle":"c3","role":"both","workers":10,"labels":{},"since":1774746000000000,'
        '"cronce":"1.0","draining":false,"gone":false}'
    )
    assert held == Holder("web-1:70:9", "c3", "both", 10, {}, ONE, "1.0")
    assert record.decode('{"v":4,"state":"due"}') == Record(State.DUE)


def test_version_5_is_readable_for_ever() -> None:
    """When a person had a slot tried again stood where now stands when it ended."""
    text = (
        '{"v":5,"state":"due","past":[["00000000000007-000000000008","web-1:70:9",1774746000000000,"lost, retried: by'
        ' ada",1774749600000250]]}'
    )
    past = Past(Fence(7, 8), "web-1:70:9", ONE, "lost, retried: by ada", None, TWO)
    assert record.decode(text) == Record(State.DUE, past=(past,))
    said = "failed: Boom, retried: in vain"  # by whoever raised it
    failed = Past(Fence(7, 8), "web-1:70:9", ONE, said, TWO)
    assert record.decode(text.replace("lost, retried: by ada", said)) == Record(State.DUE, past=(failed,))
    _refused(RUN, text.replace("250]]", "250,null]]"))


def test_there_is_a_way_from_every_version_ever_written() -> None:
    assert sorted(codec.UPGRADES) == list(range(1, codec.RECORD_VERSION))


# --- anything else is refused ---


def _refused(kind: Kind, text: str) -> None:
    with pytest.raises(BadRecord, match=r"the cell 'the/key' holds something cronce did not write: "):
        kind.decode(text, "the/key")


@every_kind
@pytest.mark.parametrize(
    "text",
    ["", "x", "{", "[]", "7", "null", '"v"', "{}", '{"v":6}', '["v"]', "\x80\x04N.", '{"v":6,"v":6,"state":"due"}{',
     "[" * 100_000, '{"v":' * 100_000, '{"v":6,"run":' + "[" * 100_000, "9" * 5000],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_garbage_is_refused_and_the_cell_named(kind: Kind, text: str) -> None:
    _refused(kind, text)


@every_kind
def test_an_unknown_field_is_refused(kind: Kind) -> None:
    """A cell is written whole: what a reader dropped would be gone. Whoever adds a field raises the version."""
    _refused(kind, kind.golden[:-1] + ',"surprise":1}')


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (RUN, "state"),
        (TURN, "run"),
        *((JOB, field) for field in Job._fields if field != "code"),
        (HOLDER, "holder"),
        (HOLDER, "bundle"),
        (BUNDLE, "specs"),
        (STORED, "definition"),
    ],
)
def test_a_missing_field_is_refused(kind: Kind, field: str) -> None:
    fields = json.loads(kind.golden)
    del fields[field]
    _refused(kind, json.dumps(fields))


@pytest.mark.parametrize(
    ("kind", "newer"),
    [
        (JOB, ["code"]),
        (HOLDER, ["tzdata"]),
        (BUNDLE, ["code"]),
        (MACHINE, ["host", "tzdata"]),
        (ALERT, ["cause", "slots", "effects", "handled"]),
    ],
)
def test_a_field_that_an_older_version_did_not_know_may_be_missing(kind: Kind, newer: list[str]) -> None:
    fields = json.loads(kind.golden)
    for name in newer:
        del fields[name]
    known = kind.decode(json.dumps(fields), "key")
    assert [getattr(known, name) for name in newer if getattr(known, name)] == []
    assert json.loads(kind.encode(known)) == fields


NOT_TEXT: list[Any] = [7, None, True, [], {}]
NOT_A_CHOICE: list[Any] = ["x", "", 7, None, [], {}]
NOT_A_COUNT: list[Any] = [-1, 1.5, True, "7", None, [], float("nan")]
NOT_AN_INSTANT: list[Any] = [1.5, True, "7", None, [], float("nan"), float("inf"), 10**30, -(10**30)]
NOT_ROWS: list[Any] = [
    7,
    "",
    None,
    {},
    [7],
    [[]],
    ["fives"],
    [["", "", "", "", ""]],
    [[7, 7, 7, 7, 7]],
    [{"a": 7, "b": 7}],
]
WRONG: list[tuple[Kind, list[Any], list[str]]] = [
    (RUN, NOT_A_CHOICE, ["state", "on_lost", "outcome"]),
    (RUN, NOT_A_COUNT, ["grant", "attempts", "failures"]),
    (RUN, NOT_TEXT, ["nonce", "holder", "turn", "ask", "reason", "output", "by", "payload", "key", "result"]),
    (RUN, [*NOT_TEXT, "", "run/a", "run/a 1-1"], ["under"]),
    (RUN, [7, None, [], [1], [1, 2, 3], [-1, 2], [1, "2"], {}], ["progress"]),
    (RUN, [*NOT_AN_INSTANT, -1], ["lease", "keep", "least"]),
    (RUN, [0, 1, None, "true", []], ["joined"]),
    (POSITION, [*NOT_TEXT, "", "1-1", "x"], ["fence"]),
    (POSITION, NOT_TEXT, ["value"]),
    (RUN, NOT_AN_INSTANT, ["started", "finished"]),
    (
        RUN,
        [*NOT_ROWS, [["1-1", "", None, "", 0, 0]], [[7, "", None, "", 0, 0]], [[None, "", 10**30, "", 0, 0]]],
        ["past"],
    ),
    (TURN, NOT_TEXT, ["run"]),
    (JOB, NOT_AN_INSTANT, ["floor"]),
    (JOB, [0, True, "true", [], ["ada"], ["ada", 0, 7], [7, 0, ""], ["ada", 10**30, ""], {}], ["paused"]),
    (ACT, [0, True, "true", [], ["ada"], ["ada", 0, 7], [7, 0, ""], ["ada", 10**30, ""], {}], ["act"]),
    (JOB, NOT_TEXT, ["firing", "code"]),
    (JOB, [*NOT_ROWS, [["a1", 10**30, ""]]], ["specs"]),
    (JOB, [*NOT_ROWS, [[0, 0, -1, ""]]], ["spans"]),
    (JOB, [7, "ab", [], [0], [0, 0, 0], [0, 10**30], [0, None], {}], ["purging"]),
    (HOLDER, NOT_TEXT, ["holder", "bundle", "role", "cronce", "tzdata"]),
    (HOLDER, NOT_A_COUNT, ["workers"]),
    (HOLDER, NOT_AN_INSTANT, ["since"]),
    (HOLDER, [0, 1, None, "true", []], ["draining", "gone"]),
    (HOLDER, [7, None, [], "x", {"colour": 7}, {"colour": None}], ["labels"]),
    (HOLDER, [*NOT_AN_INSTANT, -1], ["every"]),
    (HOLDER, NOT_AN_INSTANT, ["skew"]),
    (HOLDER, NOT_A_COUNT, ["running"]),
    (ALERT, NOT_TEXT, ["kind", "subject", "severity", "text", "remedy", "cause"]),
    (ALERT, [7, None, {}, "x", [7], [None], [[]]], ["slots", "effects"]),
    (ALERT, [7, None, {}, "x", [], ["ada"], ["ada", 0, ""], ["ada", 10**30, "", None], [7, 0, "", None]], ["handled"]),
    (GUEST, NOT_TEXT, ["holder", "kind"]),
    (GUEST, [*NOT_ROWS, [["", "", 10**30]], [["", 7, 0]]], ["jobs"]),
    (ALERT, NOT_AN_INSTANT, ["since"]),
    (ALERT, [one for one in NOT_AN_INSTANT if one is not None], ["cleared"]),
    (ALERT, NOT_A_COUNT, ["times"]),
    (ALERT, [7, None, [], "x", {"a": 7}, {"a": []}, {"a": ["sent", 7, None, 1]}, {"a": [7, 7, 7, 7]}], ["deliveries"]),
    (BEATS, [*NOT_AN_INSTANT, -1], ["every"]),
    (BEATS, [*NOT_ROWS, [[10**30, ""]], [[0, 7]]], ["recent"]),
    (BEATS, NOT_A_COUNT, ["times"]),
    (OBSERVED, [-1, 1.5, True, "7", [], 10**30], ["window"]),
    (OBSERVED, [*NOT_ROWS, [[10**30, ""]], [[0, 7]]], ["calls"]),
    (OBSERVED, NOT_A_COUNT, ["times", "doubled"]),
    (OBSERVED, [*NOT_ROWS, [["", 10**30, "", ""]], [["", 0, "", 7]]], ["recent"]),
    (STORED, NOT_A_COUNT, ["revision"]),
    (STORED, [7, True, [], {}], ["definition"]),
    (STORED, NOT_TEXT, ["by"]),
    (STORED, NOT_AN_INSTANT, ["at"]),
    (MACHINE, NOT_TEXT, ["boot_id", "host", "tzdata"]),
    (MACHINE, [*NOT_ROWS, [["1.0", 2.0, 0]], [[1, 2.0, 0]], [[float("nan"), 2.0, 0]], [[1.0, 2.0, 0.5]]], ["samples"]),
    (PREVENTED, NOT_A_COUNT, ["total"]),
    (PREVENTED, [7, None, [], "x", {"2026-03-29": "7"}, {"2026-03-29": -1}, {"2026-03-29": True}], ["days"]),
    (PREVENTED, [7, None, {}, "x", [7], [None], [[]]], ["writes"]),
    (REFUSALS, NOT_A_COUNT, ["times"]),
    (REFUSALS, [*NOT_ROWS, [["a", 10**30, ""]], [["a", 0, None]]], ["recent"]),
    (BUNDLE, [7, None, [], "x", {"billing": 7}, {"billing": None}], ["specs", "code"]),
]


@pytest.mark.parametrize(
    ("kind", "field", "wrong"),
    [(kind, field, wrong) for kind, wrongs, fields in WRONG for field in fields for wrong in wrongs],
)
def test_a_field_of_the_wrong_type_or_out_of_range_is_refused(kind: Kind, field: str, wrong: object) -> None:
    _refused(kind, json.dumps({**json.loads(kind.golden), field: wrong}))


def test_every_field_was_tried_with_wrong_values() -> None:
    tried = {(id(kind), field) for kind, _, fields in WRONG for field in fields}
    assert tried == {(id(kind), field) for kind in KINDS.values() for field in json.loads(kind.golden) if field != "v"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn, golden: str) -> str:
    """A valid value with one part of it replaced, however deep."""
    fields = json.loads(golden)
    place = fields
    while True:
        step = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        deeper = place[step]
        if not isinstance(deeper, dict | list) or not deeper or draw(st.booleans()):
            place[step] = draw(json_values)
            return json.dumps(fields)
        place = deeper


@examples(40)
@given(st.data())
@every_kind
def test_whatever_stands_in_a_cell_is_read_or_refused_and_nothing_else(kind: Kind, data: st.DataObject) -> None:
    text = data.draw(st.text() | json_values.map(json.dumps) | mutated(kind.golden))
    for value in _understood(kind, text):
        assert kind.decode(kind.encode(value), "k") == value  # what was read could be ours


def _understood(kind: Kind, text: str) -> Iterator[object]:
    with suppress(BadRecord):
        yield kind.decode(text, "k")

"""Random values of the protocol, from few fences, nonces and instants, so that they meet."""

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import strategies as st

from cronce.model import Fence, from_us
from cronce.policy import OnLost
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

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)

texts = st.sampled_from(["", "web-1", "web-2"]) | st.text(max_size=8)
any_text = texts | st.text(st.characters(), max_size=8)  # surrogates too: an exception may quote a file's name
instants = st.integers(-90, 90).map(lambda s: NOON + timedelta(seconds=s)) | st.integers(0, 2**57).map(from_us)
spans = st.sampled_from([0, 1, 30, 300]).map(lambda s: timedelta(seconds=s)) | st.timedeltas(
    timedelta(0), timedelta(days=400)
)
fences = st.builds(Fence, st.integers(1, 2), st.integers(1, 3))
counts = st.integers(0, 4)
nonces = st.sampled_from(["n1", "n2"])
on_losts = st.sampled_from(get_args(OnLost))

makers = st.builds(Maker, st.just("run/billing/2026-03-29T01:00:00Z"), fences)
maybe_instants = st.none() | instants
pasts = st.builds(Past, st.none() | fences, any_text, maybe_instants, any_text, maybe_instants, maybe_instants)
records = st.builds(
    Record,
    st.sampled_from(State),
    grant=counts,
    nonce=nonces,
    holder=any_text,
    lease=spans,
    on_lost=on_losts,
    attempts=counts,
    failures=counts,
    turn=texts,
    ask=any_text,
    started=st.none() | instants,
    finished=st.none() | instants,
    outcome=st.none() | st.sampled_from(Outcome),
    reason=any_text,
    past=st.lists(pasts, max_size=3).map(tuple),
    output=any_text,
    by=any_text,
    payload=any_text,
    key=texts,
    progress=st.none() | st.tuples(counts, counts),
    under=st.none() | makers,
    result=any_text,
    keep=st.none() | spans,
    least=spans,
    joined=st.booleans(),
)
turns = st.builds(Turn, texts)
acts = st.none() | st.builds(Act, any_text, st.none() | instants, any_text)
jobs = st.builds(
    Job,
    instants,
    acts,
    st.lists(st.builds(Spec, texts, instants, any_text), max_size=3).map(tuple),
    texts,
    st.lists(st.builds(SpanRecord, instants, instants, st.none() | counts, any_text), max_size=3).map(tuple),
    st.none() | st.builds(Purging, instants, instants),
    any_text,
)
labels = st.dictionaries(texts, texts, max_size=3)
holders = st.builds(
    Holder,
    texts,
    texts,
    texts,
    counts,
    labels,
    instants,
    texts,
    st.booleans(),
    st.booleans(),
    spans,
    spans.map(lambda span: -span),
    counts,
    texts,
)
bundles = st.builds(Bundle, labels, labels)
stored = st.builds(Stored, counts, st.none() | any_text, any_text, instants)
positions = st.builds(RecordedPosition, fences, any_text)
boots = st.floats(0, 1e9)
samples = st.lists(st.builds(Sample, boots, boots, instants), max_size=3).map(tuple)
machines = st.builds(Machine, texts, samples, any_text, any_text)
prevented = st.builds(
    Prevented, counts, st.dictionaries(any_text, counts, max_size=3), st.lists(any_text, max_size=3).map(tuple)
)
refusals = st.builds(Refusals, counts, st.lists(st.builds(Refused, texts, instants, any_text), max_size=3).map(tuple))

deliveries = st.builds(Delivery, any_text, st.none() | instants, instants, counts)
names = st.lists(any_text, max_size=3).map(tuple)
handled = st.none() | st.builds(Handled, any_text, instants, any_text, st.none() | instants)
alerts = st.builds(
    Alert, any_text, any_text, any_text, any_text, instants, st.none() | instants, counts,
    st.dictionaries(any_text, deliveries, max_size=3), any_text, any_text, names, names, handled,
)  # fmt: skip
guest_jobs = st.lists(st.builds(ForeignJob, any_text, any_text, st.none() | instants), max_size=3).map(tuple)
guests = st.builds(ForeignScheduler, any_text, any_text, guest_jobs)
beaten = st.lists(st.builds(LastBeat, instants, any_text), max_size=3).map(tuple)
beats = st.builds(Beats, spans, beaten, counts)
doubled = st.lists(st.builds(Doubled, any_text, instants, any_text, any_text), max_size=3).map(tuple)
observed = st.builds(Observed, st.none() | spans, beaten, counts, counts, doubled)

"""Terms: what they come to in special cases, and which cannot be meant."""

from datetime import timedelta

import pytest

from cronce.errors import BadPolicy
from cronce.model import Traits
from cronce.policy import Overlap
from cronce.protocol.lease import LONGEST_LEASE
from cronce.protocol.terms import Terms, check_lease, check_terms, checked

LEASE = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)


def test_without_a_limit_there_are_no_turns_to_take() -> None:
    assert [Terms(LEASE, overlap=overlap, turns=2).limit for overlap in ("skip", "wait", "replace")] == [2, 2, 2]
    assert Terms(LEASE, overlap="allow").limit == 0


@pytest.mark.parametrize(
    ("overlap", "by_hand", "each_wanted", "only_noted"),
    [
        ("skip", "wait", "wait", "skip"),
        ("wait", "wait", "wait", "skip"),
        ("replace", "wait", "replace", "skip"),
        ("allow", "allow", "allow", "allow"),
    ],
)
def test_what_the_overlap_is_in_special_cases(
    overlap: Overlap, by_hand: Overlap, each_wanted: Overlap, only_noted: Overlap
) -> None:
    terms = Terms(LEASE, "rerun", overlap, attempts=3, start_within=MINUTE, delay=MINUTE)
    assert terms.by_hand() == terms._replace(overlap=by_hand, start_within=None)
    assert terms.each_wanted() == terms._replace(overlap=each_wanted)
    alone = terms._replace(overlap=only_noted, on_lost="skip", attempts=1, delay=timedelta(0))
    assert terms.only_noted() == alone


@pytest.mark.parametrize(
    "terms",
    [
        Terms(timedelta(0)),
        Terms(LONGEST_LEASE + timedelta(seconds=1)),
        Terms(LEASE, turns=0),
        Terms(LEASE, attempts=0),
        Terms(LEASE, "never"),  # type: ignore[arg-type]
        Terms(LEASE, overlap="maybe"),  # type: ignore[arg-type]
    ],
)
def test_terms_that_cannot_be_meant_are_refused(terms: Terms) -> None:
    with pytest.raises(BadPolicy):
        checked(terms)
    assert checked(Terms(LEASE)) == Terms(LEASE)


def test_what_a_store_cannot_keep_is_refused() -> None:
    check_lease(LEASE, Traits("model"))
    with pytest.raises(BadPolicy, match="use 1m or more"):
        check_lease(LEASE, Traits("model", skew=LEASE))
    last_slots = Traits("model", history=False)
    check_terms(Terms(LEASE), last_slots)
    for terms in (Terms(LEASE, overlap="allow"), Terms(LEASE, turns=2)):
        with pytest.raises(BadPolicy, match="keeps only the last slots of a job"):
            check_terms(terms, last_slots)

"""What a request carries of a run, written here and read there."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadInput
from cronce.headers import RequestHeaders, headers, read_headers
from cronce.model import Fence

FENCE = Fence(1_774_746_000_000_000, 42)
TEXT = "064e1f1a2b3c40-00000000002a"


def test_the_headers_read_as_they_were_written() -> None:
    sent = headers("billing@2026-03-29T01:00:00Z/invoice-7", FENCE, "billing")
    assert sent == {
        "Idempotency-Key": "billing@2026-03-29T01:00:00Z/invoice-7",
        "Cronce-Fence": f"{FENCE}; scope=billing",
    }
    assert read_headers(sent.items()) == RequestHeaders("billing@2026-03-29T01:00:00Z/invoice-7", FENCE, "billing")


def test_names_of_headers_are_read_in_any_case_beside_others() -> None:
    lower = [(name.lower(), value) for name, value in headers("k", FENCE, "billing").items()]
    assert read_headers([("accept", "a"), ("accept", "b"), *lower]) == RequestHeaders("k", FENCE, "billing")


def test_a_request_without_them_says_nothing() -> None:
    assert read_headers([("host", "example.org")]) == RequestHeaders(None, None, "")


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_two_keys_stay_two_and_every_key_can_be_sent(one: str, two: str) -> None:
    first, second = (headers(key, FENCE, "s")["Idempotency-Key"] for key in (one, two))
    assert first.isascii()
    assert first.isprintable()
    assert " " not in first
    assert (first == second) is (one == two)


def test_the_longest_key_of_ours_can_be_sent() -> None:
    job, effect = "j" * 128, "ü" * 250  # 500 bytes
    key = f"{job}@2026-03-29T01:00:00Z#{job}/{effect}"
    assert read_headers(headers(key, FENCE, job).items()).scope == job


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("Idempotency-Key", "", "Idempotency-Key is 1 to 3,000 printable ASCII"),
        ("Idempotency-Key", "a b", "without a space, and this is 'a b'"),
        ("Idempotency-Key", "k" * 3001, "1 to 3,000"),
        ("Idempotency-Key", "j\xfcrgen", "printable ASCII"),
        ("Cronce-Fence", "", "'' is not a fence"),
        ("Cronce-Fence", "42; scope=billing", "'42' is not a fence"),
        ("Cronce-Fence", TEXT, "scope is 1 to 3,000"),
        ("Cronce-Fence", f"{TEXT}; scope=", "scope is 1 to 3,000"),
        ("Cronce-Fence", f"{TEXT.upper()}; scope=billing", "is not a fence"),
        ("Cronce-Fence", f"{TEXT};scope=billing", "is not a fence"),
    ],
)
def test_garbage_is_refused_in_words(name: str, value: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_headers([(name, value)])
    assert says in str(caught.value)


def test_two_different_keys_in_one_request_are_refused() -> None:
    with pytest.raises(BadInput, match="twice"):
        read_headers([("Idempotency-Key", "a"), ("idempotency-key", "b")])
    assert read_headers([("Idempotency-Key", "a"), ("idempotency-key", "a")]).key == "a"


def test_a_run_that_writes_headers_imports_nothing_of_the_receiving_side() -> None:
    told = "import sys, cronce.headers; print([m for m in sys.modules if m in ('asyncio', 'cronce.receivers', 'json')])"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

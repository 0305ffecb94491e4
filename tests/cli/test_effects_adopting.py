"""`cronce effects --adopt`: what it says, and what is on record then."""

import pytest

from cronce.model import Mark
from tests.cli.test_effects import Said, done, doubtful, put, say, step, url

__all__ = ["say", "url"]


def test_steps_are_adopted_as_effects_on_things_after_a_dry_run(url: str, say: Said) -> None:
    put(
        url,
        (step("charge:7"), doubtful(), Mark.ATTENTION),
        (step("charge:8"), done('{"id":8}'), Mark.CLOSED),
        (step("mail:8"), done(), Mark.CLOSED),
    )
    words = ("effects", "billing", "--adopt", "charge:*", "--on", "invoice", "--what", "charge", "--by", "ann")
    lines = [
        "effect            state     its key stays                          remark",
        "charge/invoice:7  in doubt  billing@2026-03-29T12:00:00Z/charge:7",
        "charge/invoice:8  done      billing@2026-03-29T12:00:00Z/charge:8",
        "",
    ]
    assert say(*words, "--dry-run").splitlines() == [*lines, "2 would be adopted"]
    assert say("effects", "charge", "--all", code=1).count("charge/invoice") == 0
    assert say(*words).splitlines() == [*lines, "2 adopted"]
    assert [
        (one["effect"], one["state"], one["result"]) for one in say.json("effects", "charge", "--all")["effects"]
    ] == [
        ("charge/invoice:7", "in doubt", None),
        ("charge/invoice:8", "done", {"id": 8}),
    ]
    assert "charge/invoice:7  in doubt  " in say(*words)  # how it stands, and not that of the step that was adopted
    again = say.json(*words)
    assert ([one["reason"] for one in again["adopted"]], again["dry_run"]) == (["known already"] * 2, False)


def test_a_job_that_is_not_known_is_refused(url: str, say: Said) -> None:
    put(url, (step("charge:8"), done('{"id":8}'), Mark.CLOSED))
    say("effects", "biling", "--adopt", "charge:*", "--on", "invoice", "--what", "charge", code=1)
    assert "no job is called 'biling'" in say.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--adopt", "charge:*"), "write cronce status effects JOB --adopt 'charge:*' --on invoice --what charge"),
        (("--on", "invoice"), "--on, --what and --dry-run are for --adopt"),
        (("--dry-run",), "--on, --what and --dry-run are for --adopt"),
        (("--adopt", "charge", "--on", "i", "--what", "w"), "'charge' must have one *"),
        (("--adopt", "charge:*", "--on", "a:b", "--what", "w"), "'a:b' cannot be a kind of thing"),
    ],
)
def test_half_an_adoption_is_refused(url: str, say: Said, words: tuple[str, ...], told: str) -> None:
    put(url, (step("charge:8"), done('{"id":8}'), Mark.CLOSED))
    say("effects", "billing", *words, code=2)
    assert told in say.err

"""Whatever stands in a file, the auditor says something sensible about it, or that it cannot read it."""

import random
from typing import Any

import pytest

from cronce_audit.engine import BUG, judge, read_source
from cronce_audit.model import Facts, Source, rules
from cronce_audit.page import page
from tests.audit.samples import samples
from tests.audit.trees import YEAR

SEEDS = 3


def _texts() -> dict[str, str]:
    """The files of all pages, by rule and path."""
    return {
        f"{rule.id}/{number}/{path}": text
        for rule in rules().values()
        for section in ("Bad", "Good")
        for number, sample in enumerate(samples(page(rule), section))
        for path, text in sample.files.items()
    }


def _spoilt(text: str, chance: random.Random) -> str:
    """With a piece cut out, doubled, or replaced by something else."""
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.randrange(1, 60))
    piece = chance.choice(
        ["", text[start:end] * 2, "\0", "{{ x }}", "[" * 300, "\u202e", "- - -\n", "'", "é" * 5, ": :\n", "\t"]
    )
    return text[:start] + piece + text[end:]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_spoilt_file_is_read_or_reported_and_the_rules_cope_with_what_was_read(seed: int) -> None:
    chance = random.Random(seed)
    facts: list[Any] = []
    for path, text in _texts().items():
        name = path.split("/", 2)[2]
        read = read_source(Source(name, _spoilt(text, chance)))
        assert [one for one in read.unparsed if BUG in one.why] == []
        facts += read.facts
    judge(Facts(facts, YEAR), lambda place: place.path)


@pytest.mark.parametrize(
    "text", ["", "\0\0", "[" * 5_000, "{" * 5_000, "\n" * 1_000, "\ud7ff￿ ", "a: &a [*a, *a]", "(" * 500 + "x"]
)
def test_odd_texts_break_no_reader(text: str) -> None:
    suffixes = (".py", ".yaml", ".sh", ".js", ".ts", ".java", ".xml", ".timer", ".toml", ".json", ".cfg")
    names = [f"{stem}{suffix}" for stem in ("crontab", "Dockerfile", "docker-compose", "app") for suffix in suffixes]
    read = [one for name in names for one in read_source(Source(name, text)).unparsed]
    assert [one for one in read if BUG in one.why] == []

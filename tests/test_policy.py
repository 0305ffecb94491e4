"""The words of policies: ours are checked, those of others are translated."""

import re
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

from cronce.errors import BadPolicy
from cronce.policy import FOREIGN, Missed, OnLost, Overlap, check_choice, refuse_foreign
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Policies, declare

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "translations.md"


def table() -> dict[str, str]:
    """The page's translations: each word there, and what stands beside it."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition("## What others call it")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {word: here.replace("`", "") for _, there, here in rows[1:] for word in re.findall("`([^`]+)`", there)}


def test_the_table_in_the_docs_is_what_the_errors_say() -> None:
    assert table() == {word: ours.replace("`", "") for word, ours in FOREIGN.items()}


def test_every_translation_speaks_of_words_and_values_that_exist() -> None:
    known = {*signature(declare).parameters, *Policies.__annotations__, *signature(Cronce.lock).parameters}
    choices = {"overlap": get_args(Overlap), "missed": get_args(Missed), "on_lost": get_args(OnLost)}
    for word, ours in FOREIGN.items():
        for name, value in re.findall(r"(\w+)='?([^',}]*)", ours):
            assert name in known, f"{word} leads to {name}, which is no word of ours"
            assert value in choices.get(name, [value]), f"{word} leads to {name}={value}, which is no value of ours"


def test_no_word_of_ours_is_taken_for_a_foreign_one() -> None:
    assert FOREIGN.keys() & {*signature(declare).parameters, *Policies.__annotations__} == set()


@pytest.mark.parametrize("word", FOREIGN)
def test_a_foreign_word_is_answered_with_ours(word: str) -> None:
    with pytest.raises(BadPolicy) as error:
        refuse_foreign([word], ["overlap"])
    assert str(error.value) == f"there is no option {word!r}; here it is {FOREIGN[word]}"


@pytest.mark.parametrize(
    "word", ["concurrency_policy", "ConcurrencyPolicy", "lock_at_most_for", "randomized-delay-sec"]
)
def test_case_and_underscores_do_not_matter(word: str) -> None:
    with pytest.raises(BadPolicy, match="here it is"):
        refuse_foreign([word], ["overlap"])


@pytest.mark.parametrize(
    ("name", "value", "choices", "hint"),
    [
        ("overlap", "Forbid", Overlap, "; here it is overlap='skip'"),
        ("overlap", "BUFFER_ALL", Overlap, "; here it is overlap='wait' with missed='all'"),
        ("overlap", "Replace", Overlap, "; here it is 'replace'"),
        ("missed", "Skip", Missed, "; here it is 'skip'"),
        ("missed", "Strict", Missed, "; here it is missed='all'"),
        ("on_lost", "retry", OnLost, ""),
        ("on_lost", 1, OnLost, ""),
    ],
)
def test_a_foreign_value_is_answered_with_ours(name: str, value: object, choices: object, hint: str) -> None:
    with pytest.raises(BadPolicy) as error:
        check_choice(name, value, choices)
    assert str(error.value).endswith(f", not {value!r}{hint}")

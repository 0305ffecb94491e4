"""Names that others gave become names of jobs."""

import pytest

from cronce.model import check_name, name_from


@pytest.mark.parametrize("text", ["order-sync", "app.tasks.add", "a", "_x:1"])
def test_what_can_be_a_name_stays_as_it_is(text: str) -> None:
    assert name_from(text) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("every 30 seconds", "every-30-seconds-3a55b217"),
        ("", "job-e3b0c442"),
        ("../../etc", "etc-74ccf3c5"),
        ("täglich", "t-glich-c6c7b54b"),
    ],
)
def test_what_cannot_keeps_what_is_readable_and_a_digest(text: str, name: str) -> None:
    assert name_from(text) == name
    check_name(name)


def test_two_texts_never_share_a_name() -> None:
    texts = ["a b", "a-b", "a  b", "a/b", "ab" * 100, "ab" * 100 + "c", "-a-b", "a b "]
    assert len({name_from(text) for text in texts}) == len(texts)

"""Functions in the text of any language."""

import pytest

from cronce_audit.text import body_around


@pytest.mark.parametrize(
    ("text", "at", "name", "lines"),
    [
        ("@lock\ndef tidy():\n    go()\n\nother()\n", 2, "tidy", (0, 4)),
        ("export const tidy = async () => {\n  await go();\n};\n", 1, "tidy", (0, 2)),
        ("class A {\n  void tidy() {\n    go();\n  }\n}\n", 2, "tidy", (1, 3)),
    ],
)
def test_a_function_is_told_by_its_head_and_by_indentation(
    text: str, at: int, name: str, lines: tuple[int, int]
) -> None:
    body = body_around(text.split("\n"), at)
    assert body is not None
    assert (body.name, body.start, body.end) == (name, *lines)


def test_what_is_in_no_function_has_none() -> None:
    assert body_around(["go()"], 0) is None

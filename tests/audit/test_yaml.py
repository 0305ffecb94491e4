"""YAML with lines: every part knows where it stands, and no file is too clever."""

import time

import pytest

from cronce_audit.model import Unreadable
from cronce_audit.yaml import UNKNOWN, UNKNOWN_TAG, YamlNode, documents


def _one(text: str) -> YamlNode:
    (document,) = documents(text)
    return document


def _at(node: YamlNode | None) -> tuple[str | None, int]:
    assert node is not None
    return node.text, node.line


def test_every_part_has_its_line() -> None:
    document = _one("a:\n  b: [1,\n      2]\n  c:\n    - d: e\n")
    b = document.get("a", "b")
    c = document.get("a", "c")
    assert b is not None
    assert c is not None
    assert (b.kind, b.line, b.column) == ("sequence", 2, 6)
    assert [_at(item) for item in b.items] == [("1", 2), ("2", 3)]
    assert _at(c.items[0].get("d")) == ("e", 5)
    assert _at(document.key("a")) == ("a", 1)


def test_documents_are_told_apart_and_empty_ones_left_out() -> None:
    text = "---\n# nothing\n---\na: 1\n---\nb: 2\n...\n---\n- c\n"
    assert [(document.kind, document.line) for document in documents(text)] == [
        ("mapping", 4),
        ("mapping", 6),
        ("sequence", 9),
    ]
    assert list(documents("")) == []


def test_what_is_not_there_is_none() -> None:
    document = _one("a: b\nc: [d]\n")
    assert document.get("x") is None
    assert document.get("a", "b", "c") is None
    assert document.get("c", "d") is None
    assert document.get() is document
    assert document.key("x") is None


@pytest.mark.parametrize(("written", "null"), [("3", False), ("~", True), ("", True), ('""', False)])
def test_a_value_that_is_left_empty_is_none(written: str, null: bool) -> None:
    value = _one(f"a: {written}\n").get("a")
    assert value is not None
    assert value.is_null is null


def test_a_key_that_is_there_twice_is_noticed_and_the_last_counts() -> None:
    document = _one("a: 1\nb: 2\na: 3\n")
    assert _at(document.get("a")) == ("3", 3)
    assert [_at(key) for key in document.repeated] == [("a", 3)]


def test_merge_keys_give_what_the_mapping_has_not_and_the_first_source_wins() -> None:
    document = _one("x: &x {a: 1, b: 1}\ny: &y\n  b: 2\n  c: 2\nz:\n  <<: [*x, *y]\n  a: 3\nw:\n  <<: *y\n")
    merged = document.get("z")
    assert merged is not None
    assert [(key.text, value.text, value.line) for key, value in merged.pairs] == [
        ("a", "3", 7),
        ("b", "1", 1),
        ("c", "2", 4),
    ]
    assert merged.repeated == []
    assert _at(document.get("w", "c")) == ("2", 4)


def test_an_alias_is_what_it_names() -> None:
    document = _one("a: &a {b: c}\nd: *a\n")
    assert document.get("a") is document.get("d")


def test_a_billion_laughs_cost_their_text() -> None:
    lines = ["a0: &a0 [ha]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60)]
    merges = ["m0: &m0 {k: v}"] + [f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}], k{n}: v}}" for n in range(1, 60)]
    document = _one("\n".join(lines + merges))
    last = document.get("a59")
    assert last is not None
    assert len({id(item) for item in last.items}) == 1
    assert len((document.get("m59") or last).pairs) == 60


def test_tags_of_others_are_kept() -> None:
    value = _one("a: !Ref b\n").get("a")
    assert value is not None
    assert (value.tag, value.text) == ("!Ref", "b")


def test_what_a_template_puts_there_is_unknown() -> None:
    value = _one(f"image: app:{UNKNOWN}\n").get("image")
    assert value is not None
    assert value.is_unknown


def test_what_a_template_adds_to_is_unknown_and_not_null() -> None:
    document = _one(f"a: {UNKNOWN_TAG}\n  b: c\nd: {UNKNOWN_TAG}\ne:\n")
    a, d, e = (document.get(key) for key in "ade")
    assert a is not None
    assert d is not None
    assert e is not None
    assert _at(a.get("b")) == ("c", 2)
    assert [(node.is_unknown, node.is_null) for node in (a, d, e)] == [(True, False), (True, False), (False, True)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\nc: [1,\n", 2),
        ("a: b: c\n", 1),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: \x01\n", 2),
        ("a: 1\nb: *nobody\n", 2),
        ("a: &a\n  b: *a\n", 2),
        ("a: &a 1\n---\nb: *a\n", 3),
        ("x:\n - " + "[" * 300, 2),
        ("a: \ud800", 1),
    ],
)
def test_what_is_not_yaml_says_where(text: str, line: int) -> None:
    with pytest.raises(Unreadable) as caught:
        list(documents(text))
    assert caught.value.line == line


def test_depth_is_refused_before_it_costs() -> None:
    before = time.process_time()
    with pytest.raises(Unreadable, match="deeply"):
        list(documents("[" * 1_000_000))
    assert time.process_time() - before < 5

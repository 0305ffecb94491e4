"""The page of a rule as a terminal shows it."""

from cronce_audit.page import Piece, pieces, published, summary

PAGE = """\
# CR999 a-name

It happens. It is **bad**, says [the manual](https://example.org/x), and
so does [CR998](CR998.md).

## Bad
Two ways:
- the *one*,
  with more
- the other

### By hand

```python app.py finds=2
x = 1
twice()
```

```
plain
```

| a | b |
|---|---|
| 1 | 2 |
"""


def test_a_page_is_shown_without_its_markup() -> None:
    assert list(pieces(PAGE)) == [
        Piece("title", "CR999 a-name"),
        Piece("text", "It happens. It is bad, says the manual (https://example.org/x), and so does CR998."),
        Piece("heading", "Bad"),
        Piece("text", "Two ways:"),
        Piece("item", "- the *one*, with more"),
        Piece("item", "- the other"),
        Piece("heading", "By hand"),
        Piece("file", "app.py"),
        Piece("code", "x = 1"),
        Piece("found", "twice()"),
        Piece("code", "plain"),
        Piece("code", "| a | b |"),
        Piece("code", "|---|---|"),
        Piece("code", "| 1 | 2 |"),
    ]


def test_what_is_published_has_the_path_above_the_sample_and_is_the_same_otherwise() -> None:
    assert published(PAGE) == PAGE.replace("```python app.py finds=2\n", "`app.py`\n\n```python\n")


def test_its_first_sentence_is_the_summary() -> None:
    assert summary(PAGE) == "It happens."
    assert summary("# CR999 x\n\nVersion 3.1 of\n`a.b` is meant. More.\n") == "Version 3.1 of `a.b` is meant."
    assert summary("# CR999 x\n\nno end\n\nMore.\n") == "no end"

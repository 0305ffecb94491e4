"""The samples on the pages of rules: trees of files, and what is found in them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cronce_audit.page import SAMPLE_FENCE


class Sample(NamedTuple):
    """A tree of files, and the places in it that are found."""

    title: str
    files: dict[str, str]
    finds: list[tuple[str, int]]


def samples(text: str, section: str) -> Iterator[Sample]:
    """The trees of a section, `Bad` or `Good`."""
    body = re.search(rf"^## {section}\n(?P<body>.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    for part in re.split(r"^### ", body["body"] if body else "", flags=re.MULTILINE):
        blocks = list(SAMPLE_FENCE.finditer(part))
        if blocks:
            yield Sample(
                part.partition("\n")[0].strip(),
                {block["path"]: block["text"] for block in blocks},
                sorted(
                    (block["path"], int(line)) for block in blocks for line in (block["finds"] or "").split(",") if line
                ),
            )

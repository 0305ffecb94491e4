"""The documentation site: `make docs` builds it from the pages as they are on disk, with nothing from elsewhere.

The source folder is the whole checkout, so that a link between two files means the same here and on GitHub, and the
auditor's pages are part of the site without a copy. docs/index.md is the map: each of its headings becomes a group of
the sidebar, with the pages that it lists; details are folded. A page that the map does not list fails the build.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pygments.lexers.shell import BashLexer
from sphinx.application import Sphinx

import cronce

project = "cronce"
author = "the cronce authors"
release = version = cronce.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "src/cronce_audit/pages/*.md", "tests/slowest.md"]
exclude_patterns = [".*"]
nitpicky = True
highlight_language = "none"
myst_heading_anchors = 4

html_theme = "furo"
html_title = "cronce"
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_search_scorer = str(Path(__file__).parent / "scorer.js")

UNLISTED = ("src/", "tests/", "README")
"""In the site, but not in the sidebar: a hundred rules would fill it. docs/reference/rules.md lists those."""
FOLDED = ("Proof", "Stores")
"""Groups of which the sidebar shows the first page, until one opens it."""
LEXERS = {"crontab": BashLexer}
HOME = (
    '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">cronce</a>\n'
)
SECTION = re.compile(r"^## (?P<caption>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^- \[(?P<label>[^\]]+)\]\((?P<path>[^)#:]+)\.md\)", re.MULTILINE)


Group = tuple[str, list[tuple[str, str]]]
"""A caption, and labels with their pages. A group without a caption is below a page."""


def groups(index: str) -> dict[str, list[Group]]:
    """What the sidebar has below each page. A page called `redis-…` is below `redis`, and a FOLDED group is below the
    first of its pages: both open when one clicks on it."""
    sections = {found["caption"]: ENTRY.findall(found["text"]) for found in SECTION.finditer(index)}
    paths = {path for entries in sections.values() for _, path in entries}
    below: dict[str, list[Group]] = {}
    for caption, entries in sections.items():
        shown: list[tuple[str, str]] = []
        for label, path in entries:
            words = path.split("-")
            parents = ["-".join(words[:count]) for count in range(len(words) - 1, 0, -1)]
            folded = [shown[0][1]] if shown and caption in FOLDED else []
            parent = next((one for one in parents if one in paths), next(iter(folded), None))
            if parent is None:
                shown.append((label, path))
            else:
                below.setdefault(parent, [("", [])])[0][1].append((label, path))
        if shown:
            below.setdefault("index", []).append((caption, shown))
    return below


def _tables_of_contents(found: list[Group]) -> Iterator[str]:
    """As Sphinx wants them, hidden: the theme shows them beside the page."""
    for caption, entries in found:
        captions = [f":caption: {caption}"] if caption else []
        lines = [f"{label} </docs/{path}>" if "../" not in path else f"{label} <{path}>" for label, path in entries]
        yield "\n".join(["", "", "```{toctree}", ":hidden:", *captions, "", *lines, "```", ""])


BELOW = groups((Path(__file__).parent / "index.md").read_text(encoding="utf-8"))


def _add_sidebar(_app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] += "".join(_tables_of_contents(BELOW.get(docname.removeprefix("docs/"), [])))
    if docname.startswith(UNLISTED):
        source[0] = "---\norphan: true\n---\n" + source[0]


def _add_home(app: Sphinx, _error: Exception | None) -> None:
    Path(app.outdir, "index.html").write_text(HOME, encoding="utf-8")


def setup(app: Sphinx) -> None:
    for name, lexer in LEXERS.items():
        app.add_lexer(name, lexer)
    app.connect("source-read", _add_sidebar)
    app.connect("build-finished", _add_home)

"""The documentation site: `make docs` builds it from the pages as they are on disk, with nothing from elsewhere.

The source folder is the whole checkout, so that a link between two files means the same here and on GitHub, and the
auditor's pages are part of the site without a copy. docs/index.md is the map: each of its headings becomes a group of
the sidebar, with the pages that it lists. A page that the map does not list fails the build.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import cronce

project = "cronce"
author = "the cronce authors"
release = version = cronce.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "src/cronce/audit/pages/*.md", "tests/slowest.md"]
exclude_patterns = [".*"]
nitpicky = True
highlight_language = "none"
myst_heading_anchors = 4

html_theme = "furo"
html_title = "cronce"
html_copy_source = False
html_show_copyright = False
html_use_index = False

UNLISTED = ("src/", "tests/", "README")
"""In the site, but not in the sidebar: a hundred rules would fill it. docs/reference/rules.md lists those."""
LEXERS = {"crontab": BashLexer, "mermaid": TextLexer}
HOME = (
    '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">cronce</a>\n'
)
SECTION = re.compile(r"^## (?P<caption>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^- \[(?P<label>[^\]]+)\]\((?P<path>[^)#:]+)\.md\)", re.MULTILINE)


def sidebar(index: str) -> Iterator[str]:
    """The pages that the map lists, group by group, as the hidden tables of contents that Sphinx wants."""
    for section in SECTION.finditer(index):
        entries = [f"{entry['label']} <{entry['path']}>" for entry in ENTRY.finditer(section["text"])]
        if entries:
            yield "\n".join(
                ["", "```{toctree}", ":hidden:", f":caption: {section['caption']}", "", *entries, "```", ""]
            )


def _add_sidebar(_app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] += "".join(sidebar(source[0]))
    elif docname.startswith(UNLISTED):
        source[0] = "---\norphan: true\n---\n" + source[0]


def _add_home(app: Sphinx, _error: Exception | None) -> None:
    Path(app.outdir, "index.html").write_text(HOME, encoding="utf-8")


def setup(app: Sphinx) -> None:
    for name, lexer in LEXERS.items():
        app.add_lexer(name, lexer)
    app.connect("source-read", _add_sidebar)
    app.connect("build-finished", _add_home)

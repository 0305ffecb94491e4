"""Every text that people see, with its place: `python -m tests.house.texts [FOLDER …]`.

With `--names`: class names and constants that stand for more than one thing, and modules that hold next to nothing.

A text is a string of three words or more that is no docstring, in the code, in the templates of the page, in its
scripts, or in the pages of the audit rules. SQL and Lua are for servers, and are left out.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
UNUSED = (
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "unless said otherwise",
    "in vain",
    "at work",
    "on the wall",
)
"""Words that readers stumbled over: not in texts for people, and not in the documentation."""
SMALL = 15
"""Lines. A module with fewer holds next to nothing."""

_WORD = re.compile(r"[A-Za-z][a-z'’]+")
_FOR_SERVERS = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|BEGIN|COMMIT|SET|LOCK|PRAGMA|EXPLAIN|GRANT|DO|REPLACE)\b"
)
_PATTERN = re.compile(r"\(\?|\\[bsdwS]|\[\^")
_JINJA = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_SCRIPT_TEXT = re.compile(r"""(["'`])((?:(?!\1)[^\\\n]|\\.)*)\1""")


class Text(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {' '.join(self.text.split())}"


def is_for_people(text: str) -> bool:
    return len(_WORD.findall(text)) >= 3 and " " in text and not _FOR_SERVERS.match(text) and not _PATTERN.search(text)


def in_code(path: Path, source: str | None = None) -> Iterator[Text]:
    """An f-string is one text, its fields as `{}`. A string that is a statement by itself is a docstring."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8") if source is None else source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        text = ""
        match node:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=values):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
                pending += [part for part in values if not isinstance(part, ast.Constant)]
            case _:
                pending += ast.iter_child_nodes(node)
        if is_for_people(text):
            yield Text(path, getattr(node, "lineno", 0), text)


class _Shown(HTMLParser):
    """What a browser shows: text, and the attributes that are read or read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []

    def handle_data(self, data: str) -> None:
        self.found.append((self.getpos()[0], data))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        shown = ("title", "alt", "aria-label", "placeholder", "data-tip")
        self.found += [(self.getpos()[0], value or "") for name, value in attrs if name in shown]


def in_template(path: Path) -> Iterator[Text]:
    """Jinja's own words are blanked out, line by line, so that the numbers of lines hold."""
    shown = _Shown()
    shown.feed(_JINJA.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), path.read_text(encoding="utf-8")))
    yield from (Text(path, line, text) for line, text in shown.found if is_for_people(text))


def in_script(path: Path) -> Iterator[Text]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            yield from (
                Text(path, number, found[2]) for found in _SCRIPT_TEXT.finditer(line) if is_for_people(found[2])
            )


def in_page(path: Path) -> Iterator[Text]:
    """A page of an audit rule, without its samples."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and is_for_people(line):
            yield Text(path, number, line)


READERS = {".py": in_code, ".html": in_template, ".js": in_script, ".md": in_page}


def texts(below: Path = SOURCE) -> Iterator[Text]:
    for path in sorted(below.rglob("*")) if below.is_dir() else [below]:
        if reader := READERS.get(path.suffix):
            yield from sorted(reader(path))


# --- names ----------------------------------------------------------------------------------------------------------

Names = dict[str, list[Path]]


def names() -> tuple[Names, Names]:
    """Classes and constants by name, each with the modules that define one. What Django or typing names is left out."""
    classes, constants = defaultdict(list), defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name != "Meta":
                classes[node.name].append(path)
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    if name.isupper() and len(name) > 1:
                        constants[name].append(path)
    return classes, constants


def repeated(found: Names) -> Names:
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def small_modules() -> list[Path]:
    """Those with code to find: the `__init__` of a package only says what the package is."""
    modules = (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return sorted(path for path in modules if len(path.read_text(encoding="utf-8").splitlines()) < SMALL)


def _print_names() -> None:
    for what, found in zip(("classes", "constants"), names(), strict=True):
        print(f"{what}: {len(repeated(found))} of {len(found)} names are used more than once")
        for name, paths in sorted(repeated(found).items(), key=lambda each: (-len(each[1]), each[0])):
            print(f"  {name} {len(paths)}: {' '.join(str(path.relative_to(SOURCE)) for path in paths)}")
    print(
        f"modules under {SMALL} lines: {' '.join(str(path.relative_to(SOURCE)) for path in small_modules()) or 'none'}"
    )


if __name__ == "__main__":
    if "--names" in sys.argv[1:]:
        _print_names()
    else:
        for folder in sys.argv[1:] or [str(SOURCE)]:
            print(*texts(Path(folder).resolve()), sep="\n")

"""So much of Helm as the chart needs: values put into templates, `if`, `else`, `range`, `default`, `quote`, `toJson`.

No package registry has a `helm`: it was not run. What the chart uses beyond this is an error here.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "cronce"
TAG = re.compile(r"\{\{(-?) *(.*?) *\}\}")


def rendered(name: str, namespace: str, **given: Any) -> list[dict[str, Any]]:
    """The documents that an install of the chart would make, by these values over its own."""
    values = _over(yaml.safe_load((CHART / "values.yaml").read_text()), given)
    root = {"Values": values, "Release": {"Name": name, "Namespace": namespace}}
    texts = [_text(path.read_text(), root) for path in sorted((CHART / "templates").glob("*.yaml"))]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def _over(values: Any, given: Any) -> Any:
    if not isinstance(values, dict) or not isinstance(given, dict):
        return given
    assert given.keys() <= values.keys()
    return {key: _over(value, given[key]) if key in given else value for key, value in values.items()}


def _text(template: str, root: dict[str, Any]) -> str:
    """A dash takes away the white space before its tag."""
    pieces, at = list[str](), 0
    for tag in TAG.finditer(template):
        before = template[at : tag.start()]
        pieces += [before.rstrip() if tag[1] else before, tag[2]]
        at = tag.end()
    text, rest = _block([*pieces, template[at:]], root, root)
    assert not rest
    return text


def _block(pieces: list[str], root: Any, here: Any) -> tuple[str, list[str]]:
    """Up to the end of a block, or to its `else`: the text, and what is left from that word on."""
    text = ""
    while pieces:
        text, pieces = text + pieces[0], pieces[1:]
        if not pieces or pieces[0] in ("end", "else"):
            return text, pieces
        word, _, what = pieces[0].partition(" ")
        if word in ("if", "range"):
            found = _value(what, root, here)
            chosen = (found or []) if word == "range" else ([here] if found else [])
            _, rest = _block(pieces[1:], root, {})
            text += "".join(_block(pieces[1:], root, one)[0] for one in chosen)
            if rest[0] == "else":
                otherwise, rest = _block(rest[1:], root, here)
                text += otherwise if not chosen else ""
            pieces = rest[1:]
        else:
            text, pieces = text + str(_value(pieces[0], root, here)), pieces[1:]
    return text, []


def _value(said: str, root: Any, here: Any) -> Any:
    path, *pipes = (part.strip() for part in said.split("|"))
    value = root if path.startswith("$.") or here is root else here
    assert re.fullmatch(r"\$?(\.\w+)+", path), path
    for name in path.removeprefix("$").split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    for pipe in pipes:
        word, _, argument = pipe.partition(" ")
        if word == "default":
            value = value or json.loads(argument)
        else:
            assert word in ("quote", "toJson"), word
            value = json.dumps(str(value) if word == "quote" else value)
    return str(value).lower() if isinstance(value, bool) and pipes else value

"""What puts the audit into a pipeline follows its schema, and every call of cronce in it is one that there is."""

import json
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from cronce.cli import parser_of
from tests.audit import rules_page

ROOT = Path(__file__).parents[2]


def loaded(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def schema(name: str) -> Any:
    return json.loads(files("check_jsonschema").joinpath("builtin_schemas", "vendor", f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("path", "name"),
    [("examples/ci/github-actions.yaml", "github-workflows"), ("examples/ci/gitlab-ci.yaml", "gitlab-ci")],
)
def test_the_pipeline_follows_its_schema(path: str, name: str) -> None:
    told = schema(name)
    check = jsonschema.validators.validator_for(told)(told)
    document = json.loads(json.dumps(loaded(path)).replace('"true":', '"on":'))  # YAML 1.1 reads `on` as true
    check.validate(document)
    with pytest.raises(jsonschema.ValidationError):
        check.validate({**document, "jobs": 3, "cronce-audit": 3})


def calls(node: Any) -> Iterator[list[str]]:
    match node:
        case dict():
            for value in node.values():
                yield from calls(value)
        case list():
            for value in node:
                yield from calls(value)
        case str() if node.startswith("cronce "):
            yield shlex.split(node)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (".pre-commit-hooks.yaml", 1),
        ("examples/ci/pre-commit-config.yaml", 1),
        ("examples/ci/github-actions.yaml", 2),
        ("examples/ci/gitlab-ci.yaml", 1),
    ],
)
def test_every_call_is_one_that_there_is(path: str, number: int) -> None:
    found = [words for words in calls(loaded(path)) if words != ["cronce", "audit"]]
    assert len(found) == number
    for _, verb, *options in found:
        assert parser_of(verb).parse_args(options).paths == []


def test_the_hook_reads_the_whole_tree_with_the_extra() -> None:
    [hook] = loaded(".pre-commit-hooks.yaml")
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("cronce-audit", "python", False)
    assert hook["additional_dependencies"] == [".[audit]"]


def test_the_page_of_all_rules_is_what_the_rules_say() -> None:
    page = (ROOT / "docs/reference/rules.md").read_text()
    assert page == rules_page.text(), "python -m tests.audit.rules_page > docs/reference/rules.md"

"""The shapes of what the API answers: each is used, and what is answered has them."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from cronce.web.api import READ_ENDPOINTS
from tests.web.house import DESCRIBED, Api, Busy, described


def test_the_description_is_valid_and_every_schema_is_used(program: Api) -> None:
    told = program.ask("/openapi.json")
    assert told == DESCRIBED
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(told)
    assert [name for name in told["components"]["schemas"] if f'schemas/{name}"' not in text] == []
    names = [verb["operationId"] for verbs in told["paths"].values() for verb in verbs.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("endpoint", READ_ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_what_is_answered_is_as_described(busy: Busy, program: Api, endpoint: Any) -> None:
    scene = busy.scene
    subjects = {"a job": ["order-sync", "cleanup", "ledger-export"], "a slot": [scene.failed.key, scene.taken_over.key]}
    subjects["a slot, or a job"] = [*subjects["a job"], *subjects["a slot"], scene.lost.key]
    paths = [endpoint.path.replace("{subject}", one) for one in subjects.get(endpoint.subject, [""])]
    answers = [program.ask(path) for path in paths]
    for answer in answers:
        jsonschema.validate(answer, described(endpoint.path))
    assert any(answers[0].values()), "there is something of everything in that store"

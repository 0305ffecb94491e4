"""The API under questions that nobody would think of, made from its own description: no bug, and answers as described.

`CRONCE_FUZZ=1000` asks so many of each kind instead of a few.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import negative_data_rejection, positive_data_acceptance

from tests.web.house import BEARER, Busy

EXAMPLES: Final = int(os.environ.get("CRONCE_FUZZ", "5"))

BUSY: Final = Busy()
REAL: Final = {
    "a job": ["billing", "order-sync", "cleanup"],
    "a slot": [BUSY.scene.lost.key, BUSY.scene.running.key, BUSY.scene.failed.key, BUSY.scene.by_hand.key],
    "an effect": [BUSY.scene.doubt, "order-email/42"],
    "an alert, by its id": ["failed/invoice-mail", "lost/billing"],
}
REAL["a slot, or a job"] = REAL["a job"] + REAL["a slot"]

schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", BUSY.app)


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Every operation is tried with a wrong token, too: more in a minute than one address may send."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cronce.web.security.TOKEN_TRIES", 1_000_000)
        yield


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every other question is about something that is there."""
    if path_parameters and len(subject := str(path_parameters["subject"])) % 2:
        words = context.operation.definition.raw["parameters"][0]["description"]
        path_parameters["subject"] = REAL[words][len(subject) % len(REAL[words])]
    return path_parameters


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_question_breaks_the_api(case: schemathesis.Case[Any]) -> None:
    """What is as described may make no sense all the same: a cursor of another list, an unprintable reason."""
    answer = case.call(headers=BEARER)
    beside = [negative_data_rejection] if answer.status_code == 414 else []  # that is a refusal, too
    case.validate_response(answer, excluded_checks=[positive_data_acceptance, *beside])

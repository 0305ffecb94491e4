"""Which files are for trying something out, and not for a deployment."""

import pytest

from cronce_audit.containers.facts import Image, Service
from cronce_audit.model import CommandLine
from tests.audit.containers.made import COMPOSE, facts


@pytest.mark.parametrize(
    "path",
    ["compose.dev.yaml", "docker-compose.local.yml", "Dockerfile.dev", "Procfile.dev", "Dockerfile.j2", "app.yaml"],
)
def test_what_is_for_trying_out_or_for_something_else_is_not_read(path: str) -> None:
    text = COMPOSE if path.endswith("ml") else "FROM a\nCMD cron\n"
    assert [fact for kind in (Service, Image, CommandLine) for fact in facts(path, text, kind)] == []

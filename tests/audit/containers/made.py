"""Trees with a Dockerfile or a compose file, and what the rules about containers find in them."""

from pathlib import Path, PurePosixPath
from typing import Any

from cronce_audit.model import Source, readers
from tests.audit.trees import findings_in

RULES = ("CR601", "CR604", "CR610", "CR521", "CR620")


def dockerfile(*lines: str, base: str = "python:3.12-slim") -> dict[str, str]:
    return {"Dockerfile": "\n".join([f"FROM {base}", *lines]) + "\n"}


def service(*lines: str, image: str = "image: shop") -> dict[str, str]:
    return {
        "compose.yaml": "\n".join(["services:", "  it:", f"    {image}", *(f"    {line}" for line in lines)]) + "\n"
    }


def found(root: Path, tree: dict[str, str]) -> list[str]:
    return findings_in(root, tree, *RULES)


def facts(path: str, text: str, kind: type) -> list[Any]:
    known = [reader for reader in readers() if reader.wants(PurePosixPath(path))]
    return [fact for reader in known for fact in reader.read(Source(path, text)) if type(fact) is kind]


COMPOSE = """\
x-base: &base
  image: python:3.12-slim
  environment:
    TZ: Europe/Berlin
services:
  web:
    <<: *base
    command: gunicorn app
  beat:
    <<: *base
    init: true
    scale: 2
    command: celery -A "my app" beat ${LEVEL:--l info} $$HOME $UNKNOWN
    stop_grace_period: 0s
  list:
    extends: beat
    command: ["sh", "-c", "exec rq worker"]
    environment:
      - TZ=UTC
      - OPEN
    deploy:
      replicas: 4
  built:
    build: {context: ./app, dockerfile: docker/Dockerfile}
    deploy:
      mode: global
  staged:
    build: {context: ., target: dev}
"""

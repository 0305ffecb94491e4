"""Workloads that leave it to their image what they start, where this tree builds the image."""

from pathlib import Path

import pytest

from cronce_audit.model import Confidence
from tests.audit.trees import report_on

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: IMAGE
"""
NODE = 'FROM node:20\nCMD ["node", "server.js"]\n'
JOBS = "const cron = require('node-cron');\ncron.schedule('0 3 * * *', () => work());\n"


def found(tmp_path: Path, image: str, tree: dict[str, str]) -> list[tuple[str, Confidence]]:
    report = report_on(tmp_path, {"k8s/web.yaml": DEPLOYMENT.replace("IMAGE", image), **tree})
    return [(str(one.place), one.confidence) for one in report.findings if one.rule in ("CR701", "CR701")]


@pytest.mark.parametrize(
    ("image", "tree"),
    [
        ("shop", {"shop/Dockerfile": NODE, "shop/package.json": "{}", "shop/server.js": JOBS}),
        ("reg.example:5000/team/shop:4", {"shop/Dockerfile": NODE, "shop/package.json": "{}", "shop/server.js": JOBS}),
        ("shop@sha256:abc", {"Dockerfile": NODE, "package.json": '{"name": "@team/shop"}', "server.js": JOBS}),
        ("shop", {"Dockerfile.shop": NODE, "package.json": "{}", "server.js": JOBS}),
        ("shop", {"Dockerfile": NODE, "compose.yaml": "services:\n  shop:\n    build: .\n", "server.js": JOBS}),
    ],
)
def test_an_image_that_is_called_like_what_builds_it(tmp_path: Path, image: str, tree: dict[str, str]) -> None:
    path = next(path for path in tree if path.endswith("server.js"))
    assert found(tmp_path, image, tree) == [(f"{path}:2", Confidence.MEDIUM)]


@pytest.mark.parametrize(
    ("image", "tree"),
    [
        ("redis:7", {"shop/Dockerfile": NODE, "shop/server.js": JOBS}),
        ("shop", {"shop/Dockerfile": NODE, "Dockerfile.shop": NODE.replace("server", "other"), "server.js": JOBS}),
        (
            "other",
            {"shop/Dockerfile": NODE, "shop/server.js": JOBS, "other/Dockerfile": NODE, "other/server.js": ""},
        ),
        ("shop\n          command: [node, other.js]", {"shop/Dockerfile": NODE, "shop/server.js": JOBS}),
    ],
)
def test_another_image_or_another_command_says_nothing(tmp_path: Path, image: str, tree: dict[str, str]) -> None:
    assert found(tmp_path, image, tree) == []


FASTAPI = """\
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

app = FastAPI()
scheduler = AsyncIOScheduler(timezone="UTC")


@app.on_event("startup")
def begin():
    scheduler.add_job(print, "cron", hour=12)
    scheduler.start()
"""
UVICORN = 'FROM python:3.12\nCMD ["uvicorn", "main:app"]\n'


_SEVERAL = {"CR201", "CR202"}


def in_python(tmp_path: Path, image: str, tree: dict[str, str]) -> list[tuple[str, Confidence]]:
    report = report_on(tmp_path, {"k8s/web.yaml": DEPLOYMENT.replace("IMAGE", image), **tree})
    return [(f"{one.rule} {one.place}", one.confidence) for one in report.findings if one.rule[:5] in _SEVERAL]


def test_a_server_of_python(tmp_path: Path) -> None:
    tree = {"shop/main.py": FASTAPI, "shop/Dockerfile": UVICORN}
    assert in_python(tmp_path, "team/shop", tree) == [("CR202 shop/main.py:11", Confidence.LOW)]
    assert in_python(tmp_path, "team/other", tree) == []


def test_the_only_dockerfile_makes_the_only_image(tmp_path: Path) -> None:
    tree = {"main.py": FASTAPI, "Dockerfile": UVICORN}
    message = "in each of the 3 copies of `Deployment/web` (k8s/web.yaml:6), each with uvicorn (Dockerfile:2)"
    assert in_python(tmp_path, "team/shop:1", tree) == [("CR202 main.py:11", Confidence.LOW)]
    assert any(message in one.message for one in report_on(tmp_path, {}).findings)
    assert in_python(tmp_path, "docker.io/bitnami/redis:7", {}) == []
    two = {"k8s/other.yaml": DEPLOYMENT.replace("IMAGE", "team/other").replace("web", "other")}
    assert in_python(tmp_path, "team/shop:1", two) == []
    assert in_python(tmp_path, "team/shop:1", {"k8s/other.yaml": "", "jobs/Dockerfile": UVICORN}) == []


def test_a_program_in_java(tmp_path: Path) -> None:
    tree = {
        "shop/Dockerfile": 'FROM eclipse-temurin:21\nENTRYPOINT ["java", "-jar", "/shop.jar"]\n',
        "shop/src/main/java/App.java": "@SpringBootApplication\n@EnableScheduling\nclass App {}\n",
        "shop/src/main/java/Jobs.java": "import org.springframework.scheduling.annotation.Scheduled;\n"
        'class Jobs { @Scheduled(cron = "0 0 3 * * *") void nightly() { work(); } }\n',
    }
    assert found(tmp_path, "team/shop:1", tree) == [("shop/src/main/java/Jobs.java:2", Confidence.MEDIUM)]


def test_the_replicas_may_be_a_value_of_the_chart(tmp_path: Path) -> None:
    tree = {
        "chart/values.yaml": "replicaCount: 3\n",
        "chart/templates/web.yaml": DEPLOYMENT.replace("IMAGE", "shop").replace("3", "{{ .Values.replicaCount }}", 1),
        "shop/Dockerfile": NODE,
        "shop/package.json": "{}",
        "shop/server.js": JOBS,
    }
    found = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR701"]
    assert [(str(one.place), one.confidence) for one in found] == [("shop/server.js:2", Confidence.MEDIUM)]
    assert "chart/values.yaml:1" in found[0].message

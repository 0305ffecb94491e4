"""The image and the compose example, as far as they can be tried without a Docker engine: linted, complete, and the
commands that they start are run."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import yaml

from cronce.integrations.manifests import USER
from cronce.schedule import parse_duration
from tests.house.wait import wait_until

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))


def steps(word: str) -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(f"{word} ")]


def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def lint(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / words[0]), *words[1:]]
    return subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)


def test_the_dockerfile_passes_its_linter_and_a_bad_one_does_not() -> None:
    done = lint("hadolint", "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")
    assert lint("hadolint", "-", text='FROM python\nENTRYPOINT cronce "$@"\n').returncode == 1


def test_the_compose_file_passes_its_schema_and_a_bad_one_does_not(tmp_path: Path) -> None:
    schema = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    assert lint(*schema, "compose.yaml").returncode == 0
    bad = tmp_path / "compose.yaml"
    bad.write_text((ROOT / "compose.yaml").read_text().replace("stop_grace_period", "stop_grace"))
    assert lint(*schema, str(bad)).returncode == 1


def test_cronce_is_process_1_as_a_numbered_user_without_a_shell() -> None:
    assert steps("ENTRYPOINT") == ['["cronce"]']
    assert steps("USER") == [f"{USER}:{USER}"]
    assert not any("TZ=" in line for line in steps("ENV"))


def test_all_that_is_copied_is_there_and_nothing_else_is_sent() -> None:
    sources = [word for line in steps("COPY") if "--from" not in line for word in shlex.split(line)[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(kept) == sorted(sources)
    named = re.search(r'readme = "(.+)"', (ROOT / "pyproject.toml").read_text())
    assert named is not None
    assert named[1] in sources  # or the package cannot be built


def test_the_schedulers_of_the_compose_file_are_stopped_after_their_grace() -> None:
    scheduler = compose()["services"]["scheduler"]
    command = scheduler["command"]
    grace = parse_duration(command[command.index("--grace") + 1])
    assert grace < parse_duration(scheduler["stop_grace_period"])
    assert scheduler["deploy"]["replicas"] == 3


def test_the_command_of_the_compose_file_runs_and_its_health_check_tells_when(tmp_path: Path) -> None:
    scheduler = compose()["services"]["scheduler"]
    words = ["0" if word == "8080" else word for word in scheduler["command"]]
    folder, _, inside = scheduler["volumes"][0].split(":")
    assert (inside, steps("WORKDIR")[-1]) == ("ro", "/app")
    env = {**os.environ, "CRONCE_URL": f"sqlite:///{tmp_path}/cronce.db"}
    command = [sys.executable, "-m", "cronce", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT / folder, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
            assert found is not None
            check = [word.replace(":8080", f":{found[1]}") for word in scheduler["healthcheck"]["test"][1:]]
            assert check[0] == "python"
            asked = [sys.executable, *check[1:]]
            wait_until(lambda: not subprocess.run(asked, capture_output=True, check=False).returncode)
        finally:
            process.terminate()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ", 1 job, role both" in out
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 1

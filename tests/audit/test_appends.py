"""Scripts that add a line to a crontab with each run."""

from pathlib import Path

import pytest

from tests.audit.trees import findings_in

JOB = "* * * * * /app/sync"


@pytest.mark.parametrize(
    "script",
    [
        f'(crontab -l 2>/dev/null; echo "{JOB}") | crontab -',
        f'(crontab -u app -l; echo "{JOB}") | sudo crontab -u app -',
        f"crontab -l | {{ cat; echo '{JOB}'; }} | crontab -",
        f'crontab < <(crontab -l; echo "{JOB}")',
        f'crontab <(crontab -l; echo "{JOB}")',
        f"crontab - <<EOF\n$(crontab -l)\n{JOB}\nEOF",
        f'echo "{JOB}" >> /etc/crontab',
        f'echo "{JOB}" | sudo tee -a /etc/cron.d/app > /dev/null',
        f"cat >> /var/spool/cron/crontabs/root <<EOF\n{JOB}\nEOF",
        f'LINE="{JOB}"\n(crontab -l; echo "$LINE") | crontab -',
        f"crontab -l > /tmp/tab\necho '{JOB}' >> /tmp/tab\ncrontab /tmp/tab",
        "cat /app/jobs >> /etc/crontabs/root",
        f'apt-get install -y cron && (crontab -l; echo "{JOB}") | crontab -',
        f'if [ "$1" = go ]; then\n(crontab -l; echo "{JOB}") | crontab -\nfi',
        f'printf "{JOB}\\n" >> /etc/crontabs/root',
        f'echo "{JOB} >> /var/log/sync.log" >> /etc/cron.d/app',
    ],
)
def test_a_line_that_is_added_with_each_run_is_found(tmp_path: Path, script: str) -> None:
    found = [line.split(":")[0] for line in findings_in(tmp_path, {"setup.sh": f"#!/bin/sh\n{script}\n"}, "CR410")]
    assert found == ["CR410 setup.sh"]


@pytest.mark.parametrize(
    "script",
    [
        f'crontab -l | grep -q sync || (crontab -l; echo "{JOB}") | crontab -',
        f'if ! crontab -l | grep -q sync; then\n(crontab -l; echo "{JOB}") | crontab -\nfi',
        f'(crontab -l | grep -v sync; echo "{JOB}") | crontab -',
        f'(crontab -l; echo "{JOB}") | sort -u | crontab -',
        f'found=$(crontab -l | grep sync)\n[ -z "$found" ] && (crontab -l; echo "{JOB}") | crontab -',
        f'found=$(crontab -l | grep sync)\nif [ -z "$found" ]; then (crontab -l; echo "{JOB}") | crontab -; fi',
        f"crontab -l | grep -q sync && exit 0\n(crontab -l; echo '{JOB}') | crontab -",
        f'grep -q sync /etc/crontab || echo "{JOB}" >> /etc/crontab',
        f"grep -q sync /etc/crontab || cat >> /etc/crontab <<EOF\n{JOB}\nEOF",
        f'if [ ! -f /etc/cron.d/app ]; then echo "{JOB}" >> /etc/cron.d/app; fi',
        f'rm -f /etc/cron.d/app\necho "{JOB}" >> /etc/cron.d/app',
        f'echo "SHELL=/bin/sh" > /etc/cron.d/app\necho "{JOB}" >> /etc/cron.d/app',
        f": > /etc/crontabs/root\necho '{JOB}' >> /etc/crontabs/root",
        f'crontab -r\n(crontab -l; echo "{JOB}") | crontab -',
        f'echo "{JOB}" | crontab -',
        f'echo "{JOB}" > /etc/cron.d/app',
        "crontab /app/crontab",
        "crontab -l | crontab -",
        "crontab -l > /tmp/backup",
        "echo MAILTO=root >> /etc/crontab",
        "echo done >> /var/log/crontab.log",
        "cat <<EOF\n(crontab -l; echo x) | crontab -\nEOF",
        "# (crontab -l; echo x) | crontab -",
        f"crontab -l > /tmp/tab\nsed -i /sync/d /tmp/tab\necho '{JOB}' >> /tmp/tab\ncrontab /tmp/tab",
        "cronce crontab install jobs.cron --name app",
        f"crontab <(crontab -l | grep -v sync; echo '{JOB}')",
        f"crontab <(echo '{JOB}')",
        f"if [ -f /etc/installed ]; then exit 0; fi\necho '{JOB}' >> /etc/crontab",
        f"[ -f /etc/installed ] && exit 0\necho '{JOB}' >> /etc/crontab",
        f"if [ -f /etc/installed ]; then\n  echo there\n  exit\nfi\n(crontab -l; echo '{JOB}') | crontab -",
    ],
)
def test_what_looks_first_or_writes_the_whole_is_silent(tmp_path: Path, script: str) -> None:
    assert findings_in(tmp_path, {"setup.sh": f"#!/bin/sh\n{script}\n"}, "CR410") == []


@pytest.mark.parametrize(
    "before", ['if [ -z "$1" ]; then exit 1; fi', '[ "$(id -u)" -ne 0 ] && exit 1', "[ -f /etc/env ] && . /etc/env"]
)
def test_an_exit_because_something_is_wrong_is_no_look(tmp_path: Path, before: str) -> None:
    script = f"{before}\necho '{JOB}' >> /etc/crontab\n"
    assert findings_in(tmp_path, {"setup.sh": script}, "CR410") == ["CR410 setup.sh:2"]


def test_two_lines_that_are_added_one_after_the_other_are_both_found(tmp_path: Path) -> None:
    script = '(crontab -l; echo "1 * * * * a") | crontab -\n(crontab -l; echo "2 * * * * b") | crontab -\n'
    assert findings_in(tmp_path, {"setup.sh": script}, "CR410") == ["CR410 setup.sh:1", "CR410 setup.sh:2"]


def test_a_script_that_only_builds_an_image_is_silent(tmp_path: Path) -> None:
    tree = {
        "setup.sh": f'echo "{JOB}" >> /etc/crontabs/root\n',
        "Dockerfile": "FROM alpine\nCOPY setup.sh /\nRUN /setup.sh\nRUN echo '* * * * * x' >> /etc/crontabs/root\n",
    }
    assert findings_in(tmp_path, tree, "CR410") == []


def test_a_file_without_an_ending_is_a_script_by_its_first_line(tmp_path: Path) -> None:
    line = f'(crontab -l; echo "{JOB}") | crontab -\n'
    assert findings_in(tmp_path, {"entrypoint": line, "setup": f"#!/bin/bash\n{line}"}, "CR410") == ["CR410 setup:2"]


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ('[ -n "$CRON_SCHEDULE" ]', True),
        ('[ "$ENABLE_CRON" = "true" ]', True),
        ('[[ -z "${NO_CRON}" ]]', True),
        ("! grep -q sync /etc/crontab", False),
        ("[ ! -f /etc/crontab.done ]", False),
    ],
)
def test_a_variable_that_is_tested_is_no_look_at_the_crontab(tmp_path: Path, test: str, found: bool) -> None:
    """Before, any word with `cron` in it before the line was taken for one."""
    script = f'#!/bin/sh\nif {test}; then\n  echo "* * * * * root /app/sync" >> /etc/crontab\nfi\n'
    assert findings_in(tmp_path, {"entrypoint.sh": script}, "CR410") == (["CR410 entrypoint.sh:3"] if found else [])

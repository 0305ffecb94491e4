"""The processes that scripts start."""

from pathlib import Path

from cronce_audit.model import CommandLine, Place
from tests.audit.trees import report_on

JOB = "* * * * * /app/sync"


def test_what_a_script_starts_is_told(tmp_path: Path) -> None:
    script = """\
    #!/bin/sh
    export WEB_CONCURRENCY=4 OTHER=$X
    cd /app
    version=$(python --version)
    celery -A app beat &
    for n in 1 2; do python worker.py; done
    [ -x x ] && A="b c" exec gunicorn "app:app" -w ${W:-4}
    exec "$@"
    grep python README
    """
    found = report_on(tmp_path, {"entrypoint.sh": script}).facts.of(CommandLine)
    environment = (("WEB_CONCURRENCY", "4"),)

    def command(words: str, line: int, **more: object) -> CommandLine:
        place = Place("entrypoint.sh", line)
        given = {"environment": environment, "shell": True, **more}
        return CommandLine(tuple(words.split()), place, "script", "entrypoint.sh", **given)  # type: ignore[arg-type]

    assert list(found) == [
        command("celery -A app beat", 5, beside=True),
        command("python worker.py", 6, copies=None, certain=False),
        command("gunicorn app:app -w ${W:-4}", 7, shell=False, environment=(("A", "b c"), *environment), certain=False),
        command("$@", 8, shell=False),
    ]


def test_where_what_stands_around_it_is_not_understood_that_is_told(tmp_path: Path) -> None:
    append = f"(crontab -l; echo '{JOB}') | crontab -\n"
    report = report_on(tmp_path, {"a.sh": f"if true\n{append}fi\n", "b.sh": "if true\nexec gunicorn app:app\n"})
    assert ([str(one.place) for one in report.unparsed], report.findings) == (["a.sh:2"], [])
    assert [str(one.place) for one in report.facts.of(CommandLine)] == ["b.sh:2"]

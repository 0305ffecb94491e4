"""What the how-to page shows is what the command prints."""

from pathlib import Path

import pytest

from cronce.cli import main
from tests.house.markdown import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/audit.md"
SHOP = {
    "app.py": """\
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

from reports import send_report

store = SQLAlchemyJobStore(url="postgresql://db/jobs")
scheduler = BlockingScheduler(
    jobstores={"default": store},
    job_defaults={"misfire_grace_time": 3600},
    timezone="UTC",
)
scheduler.add_job(send_report, "cron", hour=2, minute=30)
scheduler.start()
""",
    "reports.py": "def send_report(): ...\n",
    "crontab": "*/5 * * * * /opt/shop/sync.sh\n*/5 * * * * /opt/shop/sync.sh\n",
    "shop/sync.sh": "#!/bin/sh\nexec 9>/run/lock/sync\nflock -n 9 || exit 0\nrsync -a orders: /srv/orders\n",
    ".github/workflows/ci.yml": "on: push\njobs:\n  audit:\n    steps:\n      - run: cronce audit\n",
}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in SHOP.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)


def shown(command: str) -> list[str]:
    """The lines behind a command on the page."""
    (block,) = [block.text for block in blocks(PAGE.read_text()) if f"{command}\n" in block.text]
    return block.partition(f"{command}\n")[2].splitlines()


def test_the_findings_on_the_page_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit"]) == 1
    assert capsys.readouterr().out.splitlines() == shown("cronce audit")


def test_the_answers_on_the_page_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--checklist"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in shown("cronce audit --checklist") if line not in printed] == []

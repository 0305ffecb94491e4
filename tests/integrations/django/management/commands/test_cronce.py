"""`manage.py cronce run` is the scheduler of a project."""

import json
import signal
from collections import Counter
from pathlib import Path

from tests.house.wait import wait_until
from tests.integrations.django.projects import SETTINGS, Project, ended
from tests.servers.postgres import Admin


def test_run_is_the_projects_scheduler(tmp_path: Path, database: dict[str, object], admin: Admin) -> None:
    """In each of its processes; each slot runs once, and no body leaves its connection behind."""

    def connected(backend: str) -> bool:
        return admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)).rowcount == 1

    project = Project(tmp_path, database, store="default?schema=cronce")
    project.env["SITE_APPS"] = json.dumps(["tests.integrations.django.site.live"])
    with ended(project.start("cronce", "run", "-n", "2", f"--settings={SETTINGS}")) as server:
        wait_until(lambda: len({one.pid for one in project.runs()}) == 2)
        wait_until(lambda: project.runs("tick") and not connected(project.runs("tick")[0].backend))
        wait_until(lambda: project.runs("tick_async") and not connected(project.runs("tick_async")[0].backend))
        before = {one.pid for one in project.runs()}
        assert project.call("cronce", "trigger", "apart", "--wait")[0] == 0
        server.send_signal(signal.SIGTERM)
        out, _ = server.communicate(timeout=60)
    assert server.returncode == 0, out
    assert out.count("cronce.integrations.django:cron on postgresql://postgres@127.0.0.1") == 2
    assert set(Counter(one.key for one in project.runs()).values()) == {1}
    (apart,) = project.runs("apart")
    assert apart.pid not in before

"""A running machine: what it fires by files, which schedulers run, who holds a job store, its clock."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cronce_audit.engine import report_of
from cronce_audit.live import JobStore, MachineClock, Process, clock_in_step, look_at, scheduler_of
from cronce_audit.model import Confidence, Severity
from tests.audit.trees import YEAR, report_on_machine

SCHEDULER = """
    import sys
    from apscheduler.schedulers.background import BackgroundScheduler
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    store = SQLAlchemyJobStore(url="sqlite:///jobs.sqlite")
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.add_job(print, "interval", hours=1, id="print", replace_existing=True)
    scheduler.start()
    print("up", flush=True)
    sys.stdin.read()
"""


@contextmanager
def running(folder: Path, *words: str) -> Iterator[int]:
    """A process that has said that it is up; it ends with its input."""
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
            yield process.pid
        finally:
            process.stdin.close()


def test_two_running_schedulers_on_one_job_store_are_found_with_their_processes(tmp_path: Path) -> None:
    (tmp_path / "my_scheduler.py").write_text(textwrap.dedent(SCHEDULER))
    (tmp_path / "elsewhere").mkdir()
    with ExitStack() as stack:
        pids = sorted(stack.enter_context(running(tmp_path, sys.executable, "my_scheduler.py")) for _ in range(2))
        elsewhere = [sys.executable, "../my_scheduler.py"]
        other = stack.enter_context(running(tmp_path / "elsewhere", *elsewhere))
        seen = look_at(Path("/"), "UTC", in_step=True)
    ours = [fact for fact in seen.facts if isinstance(fact, Process) and fact.folder.startswith(str(tmp_path))]
    assert sorted((fact.pid, fact.what) for fact in ours) == sorted((pid, "my_scheduler.py") for pid in [*pids, other])
    stores = [fact for fact in seen.facts if isinstance(fact, JobStore) and fact.path.startswith(str(tmp_path))]
    assert [(store.path, store.holders, store.network) for store in stores] == [
        (f"{tmp_path}/elsewhere/jobs.sqlite", (other,), ""),
        (f"{tmp_path}/jobs.sqlite", tuple(pids), ""),
    ]
    found = report_of(seen._replace(facts=[*ours, *stores]), Path("/"), YEAR).findings
    assert [(one.rule, one.message) for one in found if one.rule.startswith("CR9")] == [
        ("CR901", f"2 of my_scheduler.py run here, each firing everything (processes {pids[0]}, {pids[1]})"),
        ("CR902", f"2 processes have the job store {tmp_path}/jobs.sqlite open ({pids[0]}, {pids[1]})"),
    ]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["celery", "-A", "shop", "beat"], "celery beat"),
        (["/usr/bin/python3", "/venv/bin/celery", "-A", "shop", "beat", "-l", "info"], "celery beat"),
        (["python", "-m", "celery", "-A", "shop", "worker", "-B"], "celery worker -B"),
        (["celery", "-A", "shop", "worker", "-lB"], "celery worker -B"),
        (["celery", "-A", "shop", "worker", "-b", "redis://h"], ""),
        (["celery", "-A", "shop", "worker"], ""),
        (["[celery beat] -A shop beat"], "celery beat"),
        (["rqscheduler", "--host", "h"], "rqscheduler"),
        (["/usr/sbin/cron", "-f"], "cron"),
        (["crond", "-n"], "cron"),
        (["/usr/sbin/CRON", "-f"], ""),
        (["supercronic", "/etc/crontab"], "supercronic"),
        (["python3", "-m", "shop.scheduler"], "shop.scheduler"),
        (["python3", "run_scheduler.py"], "run_scheduler.py"),
        (["python3", "reschedule.py"], ""),
        (["python3", "manage.py", "runserver"], ""),
        (["vim", "scheduler.py"], ""),
        (["grep", "scheduler"], ""),
        (["cronce", "run", "app:cron"], "cronce run"),
        (["python", "-m", "cronce", "run", "app:cron"], "cronce run"),
        (["cronce", "exec", "x", "--", "scheduler"], ""),
        (["airflow", "scheduler"], "airflow scheduler"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value or "none",
)
def test_a_scheduler_is_known_by_its_command_line(words: Sequence[str], what: str) -> None:
    assert scheduler_of(words) == what


def machine(*processes: tuple[int, int, str], **more: str) -> dict[str, str]:
    """Files of /proc: number, parent and command of each process."""
    tree = dict(more)
    for pid, parent, command in processes:
        tree[f"proc/{pid}/cmdline"] = command.replace(" ", "\n") + "\n"
        tree[f"proc/{pid}/status"] = f"Name:\tx\nPPid:\t{parent}\n"
    return tree


def found_on(root: Path, tree: dict[str, str]) -> list[str]:
    return [f"{one.rule} {one.place.path}" for one in report_on_machine(root, tree).findings]


def test_workers_of_one_program_are_one_scheduler(tmp_path: Path) -> None:
    command = "celery -A shop worker -B"
    assert found_on(tmp_path, machine((10, 1, command), (11, 10, command), (12, 11, command))) == []


def test_any_number_of_what_is_made_for_it_is_fine(tmp_path: Path) -> None:
    assert found_on(tmp_path, machine((10, 1, "cronce run app"), (11, 1, "cronce run app"))) == []


def test_a_cron_in_a_container_is_no_second_one_of_its_host(tmp_path: Path) -> None:
    inside = {"proc/11/cgroup": f"0::/system.slice/docker-{'a' * 64}.scope\n"}
    assert found_on(tmp_path, machine((10, 1, "cron -f"), (11, 9, "cron -f"), **inside)) == []


def test_a_cron_with_crontabs_of_its_own_is_no_second_one(tmp_path: Path) -> None:
    assert found_on(tmp_path, machine((10, 1, "crond -c /a"), (11, 1, "crond -c /b"))) == []
    assert found_on(tmp_path, machine((12, 1, "crond -c /a"))) == ["CR901 proc/10/cmdline"]


def test_the_same_in_two_containers_may_be_two_projects(tmp_path: Path) -> None:
    inside = {f"proc/{pid}/cgroup": f"0::/docker-{letter * 64}.scope\n" for pid, letter in ((10, "a"), (11, "b"))}
    (finding,) = report_on_machine(tmp_path, machine((10, 1, "celery beat"), (11, 1, "celery beat"), **inside)).findings
    assert (finding.rule, finding.severity, finding.confidence) == ("CR901", Severity.WARNING, Confidence.MEDIUM)
    assert finding.message.endswith("unless their containers are of different projects")


def test_a_machine_without_anything_is_silent(tmp_path: Path) -> None:
    report = report_on_machine(tmp_path, {})
    assert (report.findings, report.unparsed) == ([], [])


def test_what_may_not_be_read_is_said() -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "var/spool/cron/crontabs").mkdir(parents=True)
        assert report_on_machine(root, machine((10, 1, "cron -f"))).unparsed == []
        for folder in ("var/spool/cron/crontabs", "proc/10/fd"):
            (root / folder).mkdir(exist_ok=True)
            (root / folder).chmod(0)
        child = os.fork()
        if not child:
            if os.getuid() == 0:  # who may read everything
                os.setuid(65534)
            unread = [one.place.path for one in look_at(root, "UTC", in_step=True).unparsed]
            os._exit(int(unread != ["var/spool/cron/crontabs", "proc"]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for folder in ("var/spool/cron/crontabs", "proc/10/fd"):
            (root / folder).chmod(0o700)
    assert code == 0


def test_only_timers_that_are_enabled_are_read(tmp_path: Path) -> None:
    units = {
        "etc/systemd/system/on.timer": "[Timer]\nOnCalendar=daily\n",
        "etc/systemd/system/on.service": "[Service]\nExecStart=/bin/true\n",
        "etc/systemd/system/timers.target.wants/on.timer": "[Timer]\nOnCalendar=daily\n",
        "usr/lib/systemd/system/off.timer": "[Timer]\nOnCalendar=daily\n",
        "usr/lib/systemd/system/on.timer": "[Timer]\nOnCalendar=hourly\n",
    }
    assert report_on_machine(tmp_path, units).files == 2


def test_the_kernel_is_asked_about_the_clock() -> None:
    seen = look_at(Path("/"), "UTC", in_step=clock_in_step())
    (clock,) = [fact for fact in seen.facts if isinstance(fact, MachineClock)]
    assert clock.in_step is clock_in_step()
    assert clock.in_step in (True, False)


@pytest.mark.parametrize(
    "words", ["celery -A shop beat -S cronce", "celery -A shop beat -S redbeat.RedBeatScheduler", "rqscheduler"]
)
def test_schedulers_of_which_one_fires_may_run_twice(tmp_path: Path, words: str) -> None:
    tree = {f"proc/{pid}/{name}": text for pid in (10, 11) for name, text in _process(words).items()}
    assert report_on_machine(tmp_path, tree).findings == []


def _process(words: str) -> dict[str, str]:
    return {"cmdline": words.replace(" ", "\n"), "status": "PPid:\t1\n"}

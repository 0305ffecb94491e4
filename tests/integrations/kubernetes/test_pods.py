"""Pods of a CronJob's Jobs, as real processes under a kubelet of ours: exact bodies, and a status that is true."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.model import EPOCH, spell
from tests.house.wait import wait_until
from tests.integrations.kubernetes.kubelet import Cluster, Status, ended, exec_words, kill

NEW_YEAR = datetime(SystemClock().wall().year, 1, 1, tzinfo=UTC)
JOB = f"report-{(NEW_YEAR - EPOCH) // timedelta(minutes=1)}"
KEY = f"report@{spell(NEW_YEAR)}"
RERUN = ("--on-lost", "rerun", "--lease", "2s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


# --- cronce exec ----------------------------------------------------------------------------------------------------


def test_two_pods_of_one_job_are_one_body_and_the_second_waits_for_the_first(cluster: Cluster) -> None:
    """Had it ended with 0 at once, the Job would be complete, and Kubernetes would delete the pod that works."""
    cluster.order("hang")
    pods = [cluster.pod(JOB, exec_words()) for _ in range(2)]
    cluster.wait_for_bodies(1)
    wait_until(lambda: all(map(cluster.is_at_the_store, pods)))
    assert [pod.poll() for pod in pods] == [None, None]
    cluster.release.touch()
    said = sorted(ended(pod) for pod in pods)
    assert said == [(0, ""), (0, f"cronce exec: {KEY} succeeded already. It was not run again.\n")]
    assert cluster.bodies() == [f"{KEY} 1"]


def test_the_second_pod_of_a_job_that_fails_fails_too(cluster: Cluster) -> None:
    cluster.order("fail")
    assert cluster.run(JOB, exec_words(), backoff_limit=0) == Status("Failed", [3])
    code, told = ended(cluster.pod(JOB, exec_words()))
    further = f"It was not run again. Run it again: `cronce rerun {KEY}`. Why: `cronce why {KEY}`"
    assert (code, told.partition("on ")[0]) == (76, f"cronce exec: {KEY} failed already (exit code 3, ")
    assert told.endswith(f"). {further}\n")
    assert cluster.bodies() == [f"{KEY} 1"]


def test_backoff_limit_2_after_a_failure_the_next_pod_is_the_retry(cluster: Cluster) -> None:
    """One attempt in each pod, and each pod's exit code is its attempt's: with restartPolicy OnFailure it is the
    container that is started again, with the same command and the same environment."""
    cluster.order("fail", "fail", "succeed")
    assert cluster.run(JOB, exec_words(retries=2), backoff_limit=2) == Status("Complete", [3, 3, 0])
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2", f"{KEY} 3"]
    assert cluster.run(JOB, exec_words(retries=2), backoff_limit=2) == Status("Complete", [0])
    assert len(cluster.bodies()) == 3


def test_a_backoff_limit_beyond_the_retries_runs_nothing_more_and_the_job_has_failed(cluster: Cluster) -> None:
    cluster.order("fail", "fail", "succeed")
    assert cluster.run(JOB, exec_words(retries=1), backoff_limit=3) == Status("Failed", [3, 3, 76, 76])
    assert cluster.run(JOB, exec_words(retries=1), backoff_limit=3, fail_on=[76]) == Status("Failed", [76])
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]


def test_a_pod_that_waits_runs_the_retry_and_the_one_that_failed_comes_back_to_its_outcome(cluster: Cluster) -> None:
    cluster.order("hang", "hang")
    first = cluster.pod(JOB, exec_words(retries=1))
    cluster.wait_for_bodies(1)
    second = cluster.pod(JOB, exec_words(retries=1))
    first.terminate()  # an eviction: the command is told, and does not end well
    assert ended(first)[0] == 143
    cluster.wait_for_bodies(2)
    again = cluster.pod(JOB, exec_words(retries=1))
    cluster.release.touch()
    assert [ended(second)[0], ended(again)[0]] == [0, 0]
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]


@pytest.mark.parametrize(("options", "code", "bodies"), [(RERUN, 0, 2), (("--lease", "2s"), 76, 1)])
def test_of_a_pod_that_is_killed_the_next_waits_out_the_lease(
    cluster: Cluster, options: tuple[str, ...], code: int, bodies: int
) -> None:
    cluster.order("hang")
    first = cluster.pod(JOB, exec_words(*options))
    cluster.wait_for_bodies(1)
    kill(first)
    assert ended(cluster.pod(JOB, exec_words(*options)))[0] == code
    assert cluster.bodies() == [f"{KEY} {number}" for number in range(1, bodies + 1)]


def test_an_eviction_under_rerun_hands_over_and_a_body_that_ends_in_its_grace_is_done(cluster: Cluster) -> None:
    cluster.order("hang")
    first = cluster.pod(JOB, exec_words(*RERUN))
    cluster.wait_for_bodies(1)
    first.terminate()
    assert ended(first)[0] == 143
    graceful = 'trap "exit 0" TERM; echo "$CRONCE_KEY $CRONCE_ATTEMPT" >> "$BOOK"; while :; do sleep 0.02; done'
    second = cluster.pod(JOB, exec_words(*RERUN, body=graceful))
    cluster.wait_for_bodies(2)
    second.terminate()
    assert ended(second)[0] == 0
    assert ended(cluster.pod(JOB, exec_words(*RERUN)))[0] == 0
    assert len(cluster.bodies()) == 2


def test_a_command_that_outlasts_its_grace_is_killed_before_kubernetes_kills_the_pod(cluster: Cluster) -> None:
    """So how it ended is on record, and under rerun the next pod has nothing to wait for."""
    deaf = 'trap "" TERM; echo "$CRONCE_KEY $CRONCE_ATTEMPT" >> "$BOOK"; while :; do sleep 0.02; done'
    options = ("--on-lost", "rerun", "--grace", "300ms")  # a lease of 30 s, if it had to lapse
    first = cluster.pod(JOB, exec_words(*options, body=deaf))
    cluster.wait_for_bodies(1)
    first.terminate()
    assert ended(first) == (137, "")
    assert ended(cluster.pod(JOB, exec_words(*options))) == (0, "")
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]


def test_a_job_made_by_hand_runs_once_beside_the_slot_with_its_retries(cluster: Cluster) -> None:
    cluster.order("fail", "succeed")
    hand = [cluster.run(name, exec_words(retries=1), backoff_limit=2) for name in ("again", "again", "once-more")]
    assert hand == [Status("Complete", [3, 0]), Status("Complete", [0]), Status("Complete", [3, 0])]
    keys = [body.partition("#")[2] for body in cluster.bodies()]
    assert keys == ["again 1", "again 2", "once-more 1", "once-more 2"]


def test_a_paused_job_passes_its_slots_over_but_owes_a_run_to_who_made_a_job_by_hand(cluster: Cluster) -> None:
    with Cronce(cluster.url) as cron:
        cron.job("@yearly", name="report")(lambda: None)
        cron.pause("report")
        paused = "cronce exec: {} was not run here: the job is paused\n"
        assert ended(cluster.pod(JOB, exec_words())) == (0, paused.format(KEY))
        assert ended(cluster.pod("again", exec_words()))[0] == 76
        cron.resume("report")
    assert ended(cluster.pod("again", exec_words()))[0] == 0
    assert [body.partition("#")[2] for body in cluster.bodies()] == ["again 1"]


def test_the_command_is_not_told_whose_pod_it_is_in(cluster: Cluster) -> None:
    """Else a guard of the same job in it would wait for the very run that it is part of."""
    body = 'echo "<$CRONCE_JOB_NAME>" >> "$BOOK"'
    assert ended(cluster.pod(JOB, exec_words(body=body))) == (0, "")
    assert cluster.bodies() == ["<>"]


def test_a_job_that_is_no_slot_of_the_schedule_says_so(cluster: Cluster) -> None:
    later = NEW_YEAR + timedelta(minutes=1)
    name = f"report-{(later - EPOCH) // timedelta(minutes=1)}"
    code, said = ended(cluster.pod(name, exec_words()))
    assert (code, cluster.bodies()) == (0, [f"{KEY} 1"])
    started = f"cronce exec: {name} was started for {spell(later)}"
    assert said == f"{started}, which is not a slot of the schedule; it runs as {KEY}\n"


# --- a script -------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, pathlib, time
from cronce import Cronce

cron = Cronce()

@cron.job("@yearly", name="report", retries=1, backoff="1ms")
def report(run):
    with open(os.environ["BOOK"], "a") as book:
        print(run.key, run.attempt, file=book)
    order = pathlib.Path(os.environ["ORDERS"]).read_text().splitlines()[run.attempt - 1]
    while order == "hang" and not os.path.exists(os.environ["RELEASE"]):
        time.sleep(0.02)
    if order == "fail":
        raise RuntimeError("no paper")

report()
"""


@pytest.fixture
def script(cluster: Cluster) -> list[str]:
    (cluster.folder / "script.py").write_text(SCRIPT)
    return [sys.executable, "script.py"]


def test_a_script_that_calls_a_guard_exits_with_0_or_1_and_is_retried(cluster: Cluster, script: list[str]) -> None:
    cluster.order("fail", "succeed")
    assert cluster.run(JOB, script, backoff_limit=2) == Status("Complete", [1, 0])
    assert cluster.run(JOB, script, backoff_limit=2) == Status("Complete", [0])
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]
    cluster.order("fail", "fail")
    assert cluster.run("by-hand", script, backoff_limit=2) == Status("Failed", [1, 1, 1])
    assert len(cluster.bodies()) == 4


def test_the_second_pod_of_a_script_waits_for_the_first(cluster: Cluster, script: list[str]) -> None:
    cluster.order("fail", "hang")
    assert cluster.run(JOB, script, backoff_limit=0) == Status("Failed", [1])
    pods = [cluster.pod(JOB, script) for _ in range(2)]
    cluster.wait_for_bodies(2)
    wait_until(lambda: all(map(cluster.is_at_the_store, pods)))
    assert [pod.poll() for pod in pods] == [None, None]
    cluster.release.touch()
    assert [ended(pod)[0] for pod in pods] == [0, 0]
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]

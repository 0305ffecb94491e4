"""A CronJob's Jobs without a cluster: pods are processes, and what Kubernetes does about how they end is done here.

As the Job controller and the kubelet do it, less the waiting in between: a pod that exits with 0 completes the Job, one
that fails is followed by another (restartPolicy Never) or its container is started again in it (OnFailure), until more
than backoffLimit of them have failed. A pod failure policy fails the Job at once on an exit code that it names.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.house.wait import wait_until

# A command that says in the book who it is, then does what the file $ORDERS says for its attempt.
BODY = """
echo "$CRONCE_KEY $CRONCE_ATTEMPT" >> "$BOOK"
order=$(sed -n "${CRONCE_ATTEMPT}p" "$ORDERS")
[ "$order" = hang ] && while ! [ -e "$RELEASE" ]; do sleep 0.02; done
[ "$order" = fail ] && exit 3
exit 0
"""


class Status(NamedTuple):
    """What `kubectl get job` shows."""

    condition: Literal["Complete", "Failed"]
    exits: list[int]
    """How its pods ended, or the containers of its one pod."""


class Cluster:
    """A directory with a store, a book that bodies write into, and orders for them: succeed, fail or hang."""

    def __init__(self, folder: Path) -> None:
        self.url, self.folder = f"sqlite:///{folder}/cronce.db", folder
        self.book, self.orders, self.release = folder / "book", folder / "orders", folder / "release"
        self.order()
        self._pods: list[subprocess.Popen[str]] = []

    def order(self, *orders: Literal["succeed", "fail", "hang"]) -> None:
        """What the attempts do, one by one."""
        self.orders.write_text("".join(f"{order}\n" for order in orders))

    def bodies(self) -> list[str]:
        return self.book.read_text().splitlines() if self.book.exists() else []

    def pod(self, job: str, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start one pod of the Job; what is in its environment is there by the manifest."""
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CRONCE_")},
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            "CRONCE_JOB_NAME": job,
            "CRONCE_URL": self.url,
            "BOOK": str(self.book),
            "ORDERS": str(self.orders),
            "RELEASE": str(self.release),
        }
        pipe = subprocess.PIPE
        pod = subprocess.Popen(
            words, env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )
        self._pods.append(pod)
        return pod

    def run(self, job: str, words: Sequence[str], *, backoff_limit: int, fail_on: Sequence[int] = ()) -> Status:
        """The Job from its first pod to its end."""
        exits: list[int] = []
        while len(exits) <= backoff_limit:
            pod = self.pod(job, words)
            pod.communicate(timeout=60)
            exits.append(pod.returncode)
            if not pod.returncode:
                return Status("Complete", exits)
            if pod.returncode in fail_on:
                break
        return Status("Failed", exits)

    def wait_for_bodies(self, number: int) -> None:
        wait_until(lambda: len(self.bodies()) == number)

    def is_at_the_store(self, pod: subprocess.Popen[str]) -> bool:
        """It has opened the store's file."""
        return any(os.path.realpath(fd) == f"{self.folder}/cronce.db" for fd in Path(f"/proc/{pod.pid}/fd").iterdir())

    def close(self) -> None:
        self.release.touch()
        for pod in self._pods:
            if pod.poll() is None:
                pod.kill()
            pod.communicate(timeout=60)


def exec_words(*options: str, retries: int = 0, body: str = BODY) -> list[str]:
    """What a CronJob's container runs."""
    own = [sys.executable, "-m", "cronce", "exec", "report", "--schedule", "@yearly", *options]
    tries = ["--retries", str(retries), "--backoff", "1ms"] if retries else []
    return [*own, *tries, "--", "sh", "-c", body]


def ended(pod: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what it said on stderr."""
    _, err = pod.communicate(timeout=60)
    return pod.returncode, err


def kill(pod: subprocess.Popen[str]) -> None:
    """The node is gone: nothing of the pod says goodbye."""
    pod.send_signal(signal.SIGKILL)
    pod.communicate(timeout=60)

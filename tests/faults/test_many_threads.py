"""Many threads of one process that claim the same slot at once."""

import threading
from collections import Counter

from cronce import Cronce, Skipped
from tests.servers.postgres import Postgres

THREADS = 500


def test_of_many_threads_at_once_one_runs_the_slot_and_the_others_are_told(postgres: Postgres) -> None:
    """Each waits for one of the process's eight connections; that is not an outage, however long it takes."""
    cron, ran = Cronce(postgres.url), list[int]()
    gate, told = threading.Event(), Counter[str]()

    @cron.job("@daily", name="report")
    def report() -> None:
        ran.append(1)

    def call() -> None:
        gate.wait()
        try:
            answer = report()
            word = "refused" if isinstance(answer, Skipped) else "ran"
        except Exception as error:
            word = repr(error)
        told[word] += 1

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    cron.close()
    assert ran == [1]
    assert told == {"ran": 1, "refused": THREADS - 1}

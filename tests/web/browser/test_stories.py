"""Four stories of new users, on the page of a live cluster: each step where somebody stumbled once. At a terminal they
are told in `tests/cli/test_stories.py`."""

import re
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from cronce.model import Mark, Write
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.runtime.queries import slot_named
from cronce.stores import open_store
from tests.house.wait import PATIENCE, wait_until
from tests.servers.process import free_port
from tests.web.browser.cluster import TOKEN, Cluster

pytestmark = pytest.mark.xdist_group("browser")

STORE = ("--store", "sqlite:///cronce.db")


def test_a_crontab_that_calls_is_seen_with_its_schedule_its_next_slot_and_what_it_was_spared(
    cluster: Cluster, page: Page
) -> None:
    """The page said nothing of who calls, and nothing of the duplicate."""
    for _ in range(2):
        _, code = cluster.cronce("exec", "backup", "--schedule", "@yearly", *STORE, "--", "true")
        assert code == 0
    page.goto(cluster.url)
    guest = page.locator("li[data-guest]", has_text="backup")
    expect(guest).to_contain_text(re.compile(r"1 job · next backup 0 0 1 1 \* in \d+d"))
    page.goto(f"{cluster.url}/jobs/backup")
    expect(page.locator("dl.facts div", has_text="duplicates prevented").locator("dd")).to_contain_text("1")
    expect(page.locator("main")).to_contain_text("0 0 1 1 *")


WSGI = """
from apscheduler.schedulers.background import BackgroundScheduler
from cronce import Cronce
from cronce.events import BARRED
from cronce.integrations.apscheduler import protect

def post_worker_init(worker):
    cron = Cronce("sqlite:///cronce.db")
    log = open(f"refused-{worker.pid}", "a", buffering=1)
    def hear(event):
        if event.what == "refused" and event.key.startswith("run/mails/") and not event.detail.startswith(BARRED):
            log.write("1\\n")
    cron.on_event(hear)
    scheduler = BackgroundScheduler(timezone="UTC", job_defaults={"misfire_grace_time": 60})
    protect(scheduler, cron)
    scheduler.add_job(print, "interval", seconds=1, id="mails")
    scheduler.start()
    worker.scheduler, worker.cron = scheduler, cron

def worker_exit(server, worker):
    worker.scheduler.shutdown()
    worker.cron.close()

def app(environ, start_response):
    start_response("200 OK", [])
    return [b""]
"""


def test_four_workers_of_gunicorn_are_four_of_apscheduler_and_each_refusal_is_counted(
    cluster: Cluster, page: Page
) -> None:
    """The page said "0 schedulers" with four at work, and counted 54 of 75 refusals."""
    (cluster.folder / "served.py").write_text(WSGI)
    words = ["-w", "4", "-b", f"127.0.0.1:{free_port()}", "-c", "served.py", "served:app", "--graceful-timeout", "5"]
    log = (cluster.folder / "gunicorn.log").open("ab")
    with (
        log,
        subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *words], cwd=cluster.folder, stdout=log, stderr=log
        ) as served,
    ):
        page.goto(cluster.url)
        try:
            guests = page.locator("li[data-guest]", has_text="APScheduler · 1 job · next mails interval")
            expect(guests).to_have_count(4)
            expect(page.locator(".health")).not_to_contain_text("0 schedulers")
            wait_until(lambda: _refused(cluster) >= 3)
        finally:
            served.send_signal(signal.SIGTERM)
            served.wait(PATIENCE)
    page.goto(f"{cluster.url}/jobs/mails")
    counted = page.locator("dl.facts div", has_text="duplicates prevented").locator("dd")
    expect(counted).to_have_text(re.compile(rf"^{_refused(cluster):,}\D"))


def _refused(cluster: Cluster) -> int:
    """As the callers have it."""
    return sum(len(path.read_text().splitlines()) for path in cluster.folder.glob("refused-*"))


def test_a_backfill_stands_on_top_of_the_job_s_page_and_is_its_last_run(cluster: Cluster, page: Page) -> None:
    """It stood where its slots are, a page further on."""
    cluster.cronce("resume", "report", *STORE)
    _, code = cluster.cronce("rerun", "report", "--from", "2026-03-01", "--to", "2026-03-04", *STORE)
    assert code == 0
    page.goto(f"{cluster.url}/jobs/report")
    rows = page.locator("table", has_text="runs of report, newest first").locator("tbody tr")
    for place in range(3):
        expect(rows.nth(place)).to_contain_text("#backfill")
    page.goto(f"{cluster.url}/jobs?q=report")
    expect(page.locator("tr", has_text="report")).to_contain_text("succeeded")


def test_an_alert_at_night_has_a_card_with_what_to_type_or_to_press(cluster: Cluster, page: Page) -> None:
    """One look, one cause, one button."""
    slot = slot_named("report@2026-03-28T02:00:00Z")
    lost = Record(State.CLOSED, 1, "n", "web-9:1:a", started=slot.at, outcome=Outcome.LOST, reason="its host died")
    with closing(open_store(f"sqlite:///{cluster.folder}/cronce.db")) as store:
        store.swap([Write(slot.cell, 0, encode(lost), at=slot.at, mark=Mark.ATTENTION)], store.load([]).epoch.seen)
    cluster.start("watch", *STORE)
    page.goto(cluster.url)
    card = page.locator("details.incident", has_text=slot.key)
    expect(card).to_contain_text("cronce watch --acknowledge lost/report")
    expect(card).to_contain_text(f"cronce resolve {slot.key} done")
    assert card.locator("a.button").count() == 0
    page.goto(f"{cluster.url}/login?next=/")
    page.get_by_label(re.compile("your name", re.I)).fill("ada")
    page.get_by_label(re.compile("token", re.I)).fill(TOKEN)
    page.get_by_role("button", name=re.compile("log in", re.I)).click()
    card.get_by_role("link", name="Acknowledge").click()
    page.locator("main").get_by_role("button", name="Acknowledge").click()
    expect(page.locator("main")).to_contain_text("acknowledged by ada (page)")
    page.goto(cluster.url)
    card.get_by_role("link", name=f"Resolve {slot.key}").click()
    page.get_by_label("done").check()
    page.locator("main").get_by_role("button", name="Resolve").click()
    page.goto(cluster.url)
    expect(card).to_have_count(0)

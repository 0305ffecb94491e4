"""The overview: how things stand in one sentence, what needs attention, and who is there."""

import re
from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronce.model import FREE, Mark, Write, alert_cell, holder_cell
from cronce.protocol.notices import Alert, Handled, Holder, encode_notice
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores.base import Scan
from tests.web.house import Browser, Busy
from tests.web.pages.paper import NOW, Paper, paper, still
from tests.web.scene import BATCH, HOSTILE, JOBS, WEB_1, WEB_2, WEB_3


def test_the_overview_says_in_one_sentence_how_things_stand(papers: dict[str, Paper]) -> None:
    assert (
        "Scheduler web-3:90 stopped sending heartbeats; 5 items need attention, 4 of them critical." in papers["/"].text
    )


def test_the_overview_has_on_top_what_needs_attention_with_what_to_do(papers: dict[str, Paper], busy: Busy) -> None:
    """What one host left behind is one card: that it is gone, and the run that is stuck."""
    assert papers["/"].text.index("Host web-2 is gone") < papers["/"].text.index("Schedulers all holders")
    assert "all 6 incidents" in papers["/"].text
    text = papers["/alerts"].text
    told = ("billing was lost on web-2", "Host web-2 is gone", "thumbnails may or may not have run")
    others = ("thumbnails: effects in doubt", "invoice-mail failed", "The clock of web-3 is off")
    places = [text.index(one) for one in (*told, *others)]
    assert max(places[:4]) < places[4] < places[5]
    lost, host = (text[place : text.find(" since ", place + 100)] for place in places[:2])
    for part in (f"{busy.scene.lost.key} is lost", "How much of its work was done.", "1d ago"):
        assert part in lost
    assert f"cronce resolve {busy.scene.lost.key} done" in lost
    assert f"{busy.scene.stuck.key} was granted to {WEB_2}" in host
    assert f"cronce why invoice-mail has more; {HOSTILE}" in text
    assert text.count("is lost. Look, then resolve it.") == 0  # it is told as it is now


def test_the_overview_shows_who_beats_and_what_runs(papers: dict[str, Paper], busy: Busy) -> None:
    states = {one["data-holder"]: one["data-state"] for one in papers["/"].all("li") if "data-holder" in one}
    assert states == {WEB_1: "alive", BATCH: "draining", WEB_3: "late", WEB_2: "dead"}
    assert {(one["value"], one["max"]) for one in papers["/"].all("progress")} == {("412", "1000")}
    running = papers["/"].text.partition("Running now")[2].partition("Next up")[0]
    assert f"order-sync {busy.scene.running.at:%H:%M:%S}Z web-1:4711 " in running


@pytest.mark.parametrize(("ago", "told"), [(-1, "just now"), (1.9, "just now"), (2, "2s ago")])
def test_a_beat_that_is_newer_than_the_page_was_just_now(ago: float, told: str) -> None:
    busy = still()
    busy.store.purge(busy.store.scan(Scan("holder/")).cells)
    busy.store.swap([_beating(WEB_1, timedelta(seconds=ago))], busy.store.load([]).epoch.seen)
    visitor = Browser(busy.app)
    assert f"alive · beat {told}" in paper(visitor, "/").text
    assert f" {told} " in paper(visitor, "/holders").text


def calm(*holders: tuple[str, float], others: Sequence[Write] = ()) -> tuple[str, str, list[str]]:
    """A store in which nothing went wrong, with schedulers that beat so long ago: the tone, the sentence, and who is
    shown."""
    busy = still()
    store = busy.store
    prefixes = ("alert/", "holder/", "effect/")
    store.purge([cell for prefix in prefixes for cell in store.scan(Scan(prefix)).cells])
    store.purge(store.scan(Scan("run/", mark=Mark.ATTENTION)).cells)
    store.purge(store.scan(Scan("run/reindex/")).cells)
    writes = [*(_beating(name, timedelta(seconds=ago)) for name, ago in holders), *others]
    assert [one.refused for one in store.swap(writes, store.load([]).epoch.seen).verdicts] == [None] * len(writes)
    answer = Browser(busy.app).get("/")
    told_of_hosts = {"Needs attention" in answer.text, "is gone" in answer.text}
    assert others or len(told_of_hosts) == 1  # and of nothing else
    told = re.search(r'<p class="health (\w+)".*?<span>(.*?)</span>', answer.text, re.DOTALL)
    assert told is not None
    return told[1], told[2], re.findall(r'data-holder="([^"]+)"', answer.text)


def _beating(name: str, ago: timedelta, up: timedelta = timedelta(0)) -> Write:
    """Heard of so long ago, and started so long before."""
    holder = Holder(name, "b1", "both", 8, {}, NOW - ago - up, "1.0.0")
    return Write(holder_cell(name), FREE, encode_notice(holder), Mark.OPEN, ttl=HOLDER_TTL - ago)


def test_all_is_well_when_it_is() -> None:
    last = "the last run started 13s ago"
    strangers = "calls from 2 hosts"  # which ran something, and left no beat
    well = f"All is well: {len(JOBS)} jobs, 2 schedulers, {strangers}, {last}."
    assert calm((WEB_1, 1), (WEB_3, 4)) == ("good", well, [WEB_1, WEB_3])


def test_what_is_snoozed_is_told_instead_of_that_all_is_well() -> None:
    """It said so above "Needs attention"."""
    until = NOW + timedelta(hours=1)
    flapping = Alert("flapping", "mail", "warning", "it changes.", NOW, handled=Handled("ada", NOW, "", until))
    snoozed = Write(alert_cell("flapping", "mail"), FREE, encode_notice(flapping), Mark.OPEN)
    tone, sentence, _ = calm((WEB_1, 1), (WEB_3, 4), others=[snoozed])
    assert (tone, sentence.partition(",")[0]) == (
        "odd",
        f"1 alert snoozed (mail keeps losing its leader): {len(JOBS)} jobs",
    )


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ([], ("bad", "No scheduler is alive.")),
        ([(WEB_1, 1), (WEB_2, 25)], ("odd", "Scheduler web-2:812 stopped sending heartbeats.")),
        ([(WEB_1, 1), (WEB_2, 55)], ("bad", "Host web-2 is gone.")),
        ([(WEB_1, 1), (WEB_2, 55), (WEB_3, 99)], ("bad", "2 items need attention.")),
    ],
)
def test_a_scheduler_that_fell_silent_is_told_of(holders: list[tuple[str, float]], told: tuple[str, str]) -> None:
    assert calm(*holders) == (*told, [name for name, _ in holders])


@pytest.mark.parametrize("others", [[(WEB_2, 2000)], [(WEB_2, 55), ("web-2:99:ab", 3)]])
def test_one_that_has_been_dead_for_long_or_was_replaced_is_not(others: list[tuple[str, float]]) -> None:
    tone, told, strip = calm((WEB_1, 1), *others)
    assert tone == "good", told
    assert strip == [one[0] for one in ((WEB_1, 1), *others) if one[1] < 30]


@pytest.mark.parametrize(
    ("dead", "told"),
    [
        ([WEB_2], "A scheduler on web-2 died: web-2:812."),
        ([WEB_2, "web-2:813:ab"], "2 schedulers on web-2 died."),
    ],
)
def test_a_host_with_a_scheduler_that_beats_is_not_gone(dead: list[str], told: str) -> None:
    """Of two schedulers on one host one was killed: the page said that the host is gone, beside the other's beats."""
    hour = timedelta(hours=1)
    writes = [_beating("web-2:99:ab", timedelta(seconds=1), hour)]
    writes += [_beating(name, timedelta(seconds=55), hour) for name in dead]
    tone, sentence, _ = calm((WEB_1, 1), others=writes)
    assert (tone, sentence) == ("bad", told)

"""Incidents on the page: every alert has a card, with what to do for who may act, and what to type for who may not."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from cronce.model import ABSENT, Instant, Mark, Write, alert_cell
from cronce.monitor.alerts import AlertKind
from cronce.monitor.watch import BY_ONE_LOOK
from cronce.protocol.notices import Alert, Delivery, encode_notice
from cronce.web.pages.incidents import told_of
from tests.web.house import Browser, Busy
from tests.web.pages.paper import NOW, Paper, paper, still
from tests.web.scene import WEB_2


def test_alerts_say_since_when_and_whom_they_told(papers: dict[str, Paper], visitor: Browser) -> None:
    text = papers["/alerts"].text
    one = paper(visitor, "/alerts/gone/" + WEB_2)
    assert f"gone/{WEB_2} warning 50s ago 1 raised: sent to 1 destination 50s ago" in one.text
    assert "4f1c" not in one.text
    assert len(list(one.all("div", title="4f1c"))) == 1
    assert text.index("Host web-2 is gone") < text.index("invoice-mail failed") < text.index("The clock of web-3")
    assert re.search(r"Cleared lately .* late: probe It started 70s late\. 1h ago cleared 40m ago 2", text)
    counts = [one for one in papers["/alerts"].all("span") if "data-alerts" in one]
    assert ["hidden" in one for one in counts] == [False]


@pytest.mark.parametrize(
    ("deliveries", "told"),
    [
        (
            [("raised", 60, 1), ("raised", 90, 1), ("raised", None, 2)],
            [("raised", "sent to 2 of 3 destinations", 60, 2)],
        ),
        ([("raised", None, 1)], [("raised", "sent to 0 of 1 destination", None, 1)]),
        (
            [("raised", 60, 1), ("cleared", 5, 1), ("cleared", 4, 3)],
            [("raised", "sent to 1 destination", 60, 0), ("cleared", "sent to 2 destinations", 4, 0)],
        ),
    ],
)
def test_an_alert_says_how_many_were_told(deliveries: list[Any], told: list[Any]) -> None:
    def ago(seconds: int | None) -> Instant | None:
        return None if seconds is None else NOW - timedelta(seconds=seconds)

    given = {
        f"d{place}": Delivery(notice, ago(sent), NOW, tries) for place, (notice, sent, tries) in enumerate(deliveries)
    }
    seen = told_of(Alert("late", "probe", "warning", "", NOW, deliveries=given))
    assert [(one.notice, one.sentence, one.sent, one.tries) for one in seen] == [
        (notice, sentence, ago(sent), tries) for notice, sentence, sent, tries in told
    ]


def test_every_alert_has_a_card_also_when_it_is_over() -> None:
    town = still()
    alerts = [Alert(kind, subject, "critical", "", NOW) for kind in (*AlertKind, "newer") for subject in ("a/b c", "")]
    alerts += [alert._replace(subject="over", cleared=NOW) for alert in alerts[::2]]
    writes = [
        Write(alert_cell(one.kind, one.subject), ABSENT, encode_notice(one), Mark.FREE if one.cleared else Mark.OPEN)
        for one in alerts
    ]
    assert {one.refused for one in town.store.swap(writes, town.store.load([]).epoch.seen).verdicts} == {None}
    for one in alerts:
        page = paper(Browser(town.app), f"/alerts/{quote(one.id)}")
        assert one.id in page.text
        assert ("It is over" in page.text) == bool(one.cleared or one.kind in BY_ONE_LOOK)
    assert "No scheduler is alive" in paper(Browser(town.app), "/alerts/lost/billing").text
    assert Browser(town.app).get("/alerts/nothing/there").status_code == 404
    assert Browser(town.app).get("/alerts/<b>").status_code == 404


def test_who_may_act_has_buttons_and_who_may_not_has_the_commands() -> None:
    town = still()
    ada, visitor = Browser(town.app), Browser(town.app)
    ada.log_in()
    key = town.scene.lost.key
    shown, typed = paper(ada, "/alerts/lost/billing"), paper(visitor, "/alerts/lost/billing")
    ways = {f"/runs/{key}/resolve", f"/runs/{key}/rerun", "/jobs/billing/pause"}
    ways |= {"/alerts/lost/billing/acknowledge", "/alerts/lost/billing/snooze"}
    assert ways <= set(shown.links)
    assert ways & set(typed.links) == set()
    for command in (f"cronce resolve {key} retry", f"cronce rerun {key}", "cronce pause billing"):
        assert command in typed.text
        assert f"{command} copy" not in shown.text


def test_what_is_acknowledged_or_snoozed_is_so_for_all_of_the_incident_and_says_by_whom(
    town: Busy, ada: Browser
) -> None:
    def act(word: str, **said: str) -> Paper:
        way = f"/alerts/gone/{WEB_2}/{word}"
        answer = ada.post(way, {"csrf": ada.csrf(way), **said})
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/alerts/gone/{WEB_2}")
        return paper(ada, f"/alerts/gone/{WEB_2}")

    extra = Alert("lapsing", "reindex", "warning", "3 leases lapsed.", town.scene.now, cause="host web-2")
    gone = Alert("gone", WEB_2, "warning", "it is gone.", town.scene.now, cause="host web-2")
    for one in (extra, gone):
        (cell,) = town.store.load([alert_cell(one.kind, one.subject)]).cells
        write = Write(cell.key, cell.version, encode_notice(one), Mark.OPEN)
        assert town.store.swap([write], town.store.load([]).epoch.seen).verdicts[0].refused is None
    assert "acknowledged by ada (page)" in act("acknowledge", reason="on my way").text
    handled = {one["id"]: one["handled"] for one in ada.get("/api/v1/alerts").json()["alerts"]}
    assert {one: who and who["by"] for one, who in handled.items()} == {
        **dict.fromkeys(handled),
        f"gone/{WEB_2}": "ada (page)",
        "lapsing/reindex": "ada (page)",
    }
    assert "snoozed by ada (page)" in act("snooze", span="8h").text
    handled = {one["id"]: one["handled"] for one in ada.get("/api/v1/alerts").json()["alerts"]}
    assert handled["lapsing/reindex"]["until"] == handled[f"gone/{WEB_2}"]["until"] is not None
    assert ada.post("/alerts/gone/nobody/snooze", {"csrf": ada.csrf("/login"), "span": "1h"}).status_code == 404

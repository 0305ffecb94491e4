"""Alerts of one cause are one incident: one message, one card, and one word when all of it is over."""

from datetime import timedelta

import pytest

from cronce.monitor.alerts import AlertKind, Alerts, Incident, incidents, key_of, known_kind, with_causes
from cronce.monitor.destinations import Callback, Document, Sender, document
from cronce.protocol.notices import Alert, decode_alert
from tests.house.wait import wait_until
from tests.runtime.shelf import START, HandClock, HandNode, Wire

MINUTE = timedelta(minutes=1)
WEB = "web-1:1:a"
GONE = Alert(AlertKind.GONE, WEB, "warning", "web-1 is gone.", START, cause="host web-1", slots=("billing@12",))
LOST = Alert(AlertKind.LOST, "billing", "critical", "billing is lost.", START + MINUTE, cause="host web-1")
ALSO = Alert(
    AlertKind.LOST, "mail", "critical", "mail is lost.", START + MINUTE, cause="host web-1", slots=("mail@12",)
)
LATE = Alert(AlertKind.LATE, "billing", "warning", "billing is late.", START, cause="job billing")


class Office:
    """A store, a watcher, and somebody who is told."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.node = HandNode(Wire(self.clock), WEB)
        self.alerts = Alerts(self.node.ledger.client)
        self.told: list[str] = []
        self.sender = Sender(
            self.alerts,
            {"hook": Callback(self._hear)},
            do=self.node.do,
            describe=lambda claim, one: document(
                claim.alert, claim.delivery.notice, "", "web-1", incident=one, page="p"
            ),
            boot=self.clock.boot,
            wake=lambda: None,
        )

    def _hear(self, said: Document) -> None:
        self.told.append(f"{said['alert']['state']} {said['incident']['id']}")

    def look(self, *findings: Alert) -> list[str]:
        """What is told of these, in all."""
        for _ in range(2):  # what is gone has to be gone at the next look, too
            self.sender.settle(findings, lambda _alert: True)
            self.clock.turn(5.0)
        self.told = []
        for _ in range(6):
            self.sender.deliver()
            wait_until(lambda: all(one.ended for _, _, one in self.sender._under_way.values()))
        return self.told

    def handle(self, finding: Alert, span: timedelta | None) -> Alert | None:
        key = key_of(finding.kind, finding.subject)
        return self.node.do(self.alerts.handle(key, "ada", "looking", span))


def test_alerts_of_one_cause_are_one_incident_and_the_worst_speaks_for_them() -> None:
    host, job = incidents([GONE, LATE, ALSO, LOST])
    assert [one.id for one in host.alerts] == ["lost/billing", "lost/mail", f"gone/{WEB}"]
    assert (host.lead, host.since, host.slots) == (LOST, START, ("mail@12", "billing@12"))
    assert job == Incident((LATE,))


def test_what_begins_a_quarter_of_an_hour_later_is_news_again() -> None:
    later = ALSO._replace(since=GONE.since + 15 * MINUTE + timedelta(microseconds=1))
    assert [one.alerts for one in incidents([GONE, later])] == [(later,), (GONE,)]
    assert len(incidents([GONE, later._replace(since=GONE.since + 15 * MINUTE)])) == 1


def test_where_no_scheduler_is_alive_that_is_the_cause_of_what_its_hosts_left() -> None:
    silent = Alert(AlertKind.SILENT, "", "critical", "no scheduler is alive.", START)
    failed = Alert(AlertKind.FAILED, "mail", "critical", "mail failed.", START)
    caused = {one.id: one.cause for one in with_causes([silent, GONE, LOST, failed])}
    assert set(caused.values()) == {"schedulers", "job mail"}
    assert caused["failed/mail"] == "job mail"


def test_one_cause_is_one_message_and_one_more_when_it_gets_worse() -> None:
    office = Office()
    assert office.look(GONE) == [f"raised gone/{WEB}"]
    assert office.look(GONE, LOST, ALSO) == ["raised lost/billing"]
    assert office.look(GONE, LOST, ALSO) == []


def test_all_at_once_is_one_message_and_one_when_all_of_it_is_over() -> None:
    """One cause gave two critical alerts, and as many notices that it was over."""
    office = Office()
    assert office.look(GONE, LOST, ALSO, LATE) == ["raised lost/billing", "raised late/billing"]
    assert office.look(GONE, LOST, LATE) == []
    assert office.look(GONE, LATE) == []
    assert office.look() == ["cleared lost/billing", "cleared late/billing"]


def test_what_is_acknowledged_or_snoozed_is_on_record_and_snoozed_is_told_again_if_it_still_stands() -> None:
    office = Office()
    office.look(LATE)
    acknowledged = office.handle(LATE, None)
    assert acknowledged is not None
    assert acknowledged.handled is not None
    assert acknowledged.handled[:1] + acknowledged.handled[2:] == ("ada", "looking", None)
    (cell,) = office.node.store.load([key_of("late", "billing")]).cells
    assert decode_alert(cell.value, cell.key) == acknowledged
    assert office.look(LATE) == []
    office.handle(LATE, 10 * MINUTE)
    assert office.look(LATE) == []
    office.clock.turn(600.0)
    assert office.look(LATE) == ["raised late/billing"]
    assert office.look(LATE) == []
    worse = LATE._replace(severity="critical")
    office.handle(LATE, 10 * MINUTE)
    assert office.look(worse) == ["raised late/billing"]  # it is another than the one that could wait
    assert office.look() == ["cleared late/billing"]
    assert office.handle(LATE, None) is None  # it is over


def test_a_notice_links_to_the_card_and_names_what_is_sent_with_it() -> None:
    said = document(LOST, "raised", "", "web-1", incident=Incident((LOST, GONE)), page="https://cron.example.org/")
    assert said["incident"]["link"] == "https://cron.example.org/alerts/lost/billing"
    assert said["text"].endswith(f" With it: gone/{WEB}. https://cron.example.org/alerts/lost/billing")


@pytest.mark.parametrize("kind", AlertKind)
def test_every_kind_has_a_title_for_its_card(kind: AlertKind) -> None:
    """Half of them were shown by their names: *beat double: quartz*."""
    assert known_kind(kind) is kind
    assert kind.heading.format("billing")

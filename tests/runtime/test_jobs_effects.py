"""Effects outlive the runs of their slot; what is in doubt outlives everything."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.errors import InDoubt
from cronce.model import Slot
from cronce.protocol.retention import OUTCOMES, Keep, Limit
from cronce.runtime.jobs import SLOT_EFFECTS_KEPT, needless_before, purge_effects
from cronce.runtime.run import Run
from cronce.stores.base import Page, Scan
from tests.runtime.office import Office, job
from tests.runtime.shelf import START

DAILY = {"schedule": "0 12 * * *"}
NOTHING = Keep(dict.fromkeys(OUTCOMES, Limit(age=timedelta(days=1))), least=timedelta(0))


def effects(office: Office) -> list[str]:
    return sorted(key for key in office.store._cells if key.startswith("effect/"))


def tidy(office: Office) -> int:
    before = office.node.do(needless_before(office.node.ledger, "billing"))
    return office.node.do(purge_effects(office.node.ledger, "billing", before))


def purge_runs(office: Office) -> None:
    for _ in range(3):
        office.node.do(office.node.ledger.jobs.purge("billing", NOTHING))
        office.hand.turn(61)


def day(office: Office, number: int, fn: Any = str) -> None:
    def body(run: Run) -> None:
        run.once(f"step:{number}", fn, per="slot")

    office.call(job(**DAILY), body, when=Slot("billing", START + timedelta(days=number)))
    office.hand.turn(timedelta(days=1).total_seconds())


def test_an_effect_stays_while_a_run_of_its_slot_is_on_record_however_old(office: Office) -> None:
    day(office, 0)
    office.hand.turn(10 * SLOT_EFFECTS_KEPT.total_seconds())
    assert tidy(office) == 0
    assert effects(office) == ["effect/billing/2026-03-29T12:00:00Z/step:0"]


def test_an_effect_goes_when_its_runs_are_gone_and_it_is_old_enough(office: Office) -> None:
    day(office, 0)
    day(office, 1)
    purge_runs(office)
    assert tidy(office) == 0
    office.hand.turn((SLOT_EFFECTS_KEPT - timedelta(days=1, hours=1)).total_seconds())
    assert tidy(office) == 1
    assert effects(office) == ["effect/billing/2026-03-30T12:00:00Z/step:1"]


def test_what_is_in_doubt_never_goes(office: Office) -> None:
    with pytest.raises(InDoubt):
        day(office, 0, lambda: 1 / 0)
    office.hand.turn(timedelta(days=400).total_seconds())
    purge_runs(office)
    assert tidy(office) == 0
    assert effects(office) == ["effect/billing/2026-03-29T12:00:00Z/step:0"]


def test_to_find_nothing_needless_one_effect_is_read(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        day(office, number)
    scan, scans = office.store.scan, list[Scan]()

    def noted(asked: Scan) -> Page:
        scans.append(asked)
        return scan(asked)

    monkeypatch.setattr(office.store, "scan", noted)
    assert tidy(office) == 0
    assert [asked for asked in scans if asked.prefix.startswith("effect/")] == [Scan("effect/billing/", limit=1)]

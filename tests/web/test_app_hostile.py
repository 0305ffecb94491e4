"""What no writer of ours leaves in a store is shown all the same, and what is too long is cut."""

from typing import Any

import pytest

from cronce.model import FREE, Mark, Write, alert_cell
from cronce.protocol.notices import Alert, encode_notice
from cronce.protocol.record import Record, decode, encode
from tests.web.house import Api, Browser, Busy


@pytest.fixture(scope="module")
def busy() -> Busy:
    return Busy()


def changed(busy: Busy, cell: str, **what: Any) -> None:
    """A record of the scene, with something else in it."""
    loaded = busy.store.load([cell])
    (found,) = loaded.cells
    record: Record = decode(found.value)._replace(**what)
    written = Write(cell, found.version, encode(record), found.mark, found.at)
    assert not busy.store.swap([written], loaded.epoch.seen).verdicts[0].refused


@pytest.mark.parametrize("payload", ["{nope", "NaN", "[1e999]", "[" * 5_000, "9" * 5_000])
def test_a_payload_that_is_no_json_is_told_as_it_stands(busy: Busy, payload: str) -> None:
    slot = busy.scene.by_hand
    changed(busy, slot.cell, payload=payload)
    api = Api(busy.app)
    told = {one["slot"]: one["payload"] for one in api.ask("/runs?limit=1000")["runs"]}
    assert told[slot.key] == payload
    assert api.get(f"/api/v1/runs/{slot.key.replace('#', '%23')}").json()["run"]["payload"] == payload
    for path in ("/runs", f"/jobs/{slot.job}", f"/runs/{slot.key.replace('#', '%23')}"):
        assert Browser(busy.app).get(path).status_code == 200


def test_a_result_that_is_no_json_is_told_as_it_stands(busy: Busy) -> None:
    (cell,) = (cell for cell in busy.store.load(["once/order-email/42"]).cells)
    changed(busy, cell.key, result="Infinity")
    assert "Infinity" in [one["result"] for one in Api(busy.app).ask("/effects?all=true")["effects"]]


def test_half_a_character_in_an_alert_is_shown(busy: Busy) -> None:
    loaded = busy.store.load([])
    alert = Alert("failed", "half \ud800", "critical", "half \ud800", loaded.now, remedy="half \ud800")
    written = Write(alert_cell("failed", "half"), FREE, encode_notice(alert), Mark.OPEN)
    assert not busy.store.swap([written], loaded.epoch.seen).verdicts[0].refused
    visitor = Browser(busy.app)
    for path in ("/alerts", "/", "/api/v1/alerts", "/api/v1/overview"):
        assert visitor.get(path).status_code == 200, path


def test_a_long_output_is_cut_and_the_whole_is_told_by_the_api(busy: Busy) -> None:
    slot = busy.scene.failed
    changed(busy, slot.cell, output="x" * 500_000 + "the end")
    visitor, whole = Browser(busy.app), f"/api/v1/runs/{slot.key}"
    for path in (f"/jobs/{slot.job}", f"/runs/{slot.key}", f"/runs?job={slot.job}", "/", f"/runs/{slot.key}/rerun"):
        page = visitor.get(path).text
        assert len(page) < 200_000, (path, len(page))
        if path.endswith((slot.job, slot.key)) and "?" not in path:
            assert f'href="{whole}"' in page
            assert "x" * 1_000 + "the end" in page
    assert len(visitor.get(whole).json()["output"]) == 500_007

"""Pages that are one table each."""

import re
from urllib.parse import quote

from cronce.model import ABSENT, Mark, Write
from cronce.protocol.record import Outcome, Record, State, encode
from tests.web.house import Browser, Busy
from tests.web.pages.paper import Paper, paper, still
from tests.web.scene import WEB_1, WEB_2, WEB_3


def test_locks_and_leaders_say_who_and_who_before(papers: dict[str, Paper]) -> None:
    assert re.search(rf"reindex held {WEB_1} 4m ago in .* 1 before {WEB_2} , released", papers["/locks"].text)
    assert "vacuum free" in papers["/locks"].text
    assert re.search(rf"indexer led {WEB_1} .* 2 before {WEB_3} , lapsed", papers["/leaders"].text)


def test_effects_come_part_by_part() -> None:
    busy = still(token=None)
    doubt = encode(Record(State.CLOSED, outcome=Outcome.UNKNOWN))
    writes = [Write(f"once/letter/{number:03}", ABSENT, doubt, Mark.ATTENTION) for number in range(250)]
    busy.store.swap(writes, busy.store.load([]).epoch.seen)
    seen, way, visitor = [], "/effects?what=letter", Browser(busy.app)
    while way:
        one = paper(visitor, way)
        seen.append(re.findall(r"letter/(\d{3}) in doubt", one.text))
        way = one.next
    assert [len(part) for part in seen] == [100, 100, 50]
    assert [one for part in seen for one in part] == [f"{number:03}" for number in range(250)]


def test_effects_in_doubt_come_first_with_what_to_say(busy: Busy) -> None:
    text = paper(Browser(still(token=None).app), "/effects").text
    assert text.index("in doubt") < text.index("order-email/42 in progress")
    assert "/mail:<b>1042</b>' done it did not: cronce resolve" in text
    member = Browser(busy.app)
    member.log_in()
    ways = [link for link in paper(member, "/effects").links if link.endswith("/resolve")]
    assert ways == [f"/effects/{quote(busy.scene.doubt, safe='@:/')}/resolve"]
    assert busy.scene.doubt in paper(member, ways[0]).text


def test_others_are_silent_or_doubled_or_alive(papers: dict[str, Paper]) -> None:
    text = papers["/others"].text
    assert "legacy-cron silent 3h ago 15m 91" in text
    assert "quartz-prod doubled" in text
    assert "newsletter 1 would be refused 482 10s" in text


def test_findings_are_grouped_by_how_bad_they_are(papers: dict[str, Paper]) -> None:
    text = papers["/findings"].text
    places = [text.index(f"src/jobs/{severity}.py:12") for severity in ("error", "warning", "info")]
    assert places == sorted(places)

"""docs/explain/peers.md: its tables are written from the results."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.peers.peers import PEERS, ROOT
from bench.peers.results import Name
from bench.peers.scenarios import SCENARIOS

PAGE: Final = ROOT / "docs" / "explain" / "peers.md"
OPEN, CLOSE = "<!-- peers: {} -->\n", "<!-- /peers -->"

Results = Mapping[Name, dict[str, Any]]


def write(results: Results) -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def written(text: str, results: Results) -> str:
    """The page with its tables as they are now."""
    for name, make in TABLES.items():
        head, opened, rest = text.partition(OPEN.format(name))
        if opened:
            text = head + opened + "\n".join(make(results)) + "\n" + CLOSE + rest.partition(CLOSE)[2]
    return text


def summary(results: Results) -> Iterator[str]:
    """A line for each peer and store, a column for each scenario: duplicated / missed."""
    yield f"| peer | store | {' | '.join(SCENARIOS)} |"
    yield f"|---|---|{'---|' * len(SCENARIOS)}"
    for peer, about in PEERS.items():
        for store in about.stores or ("",):
            row = [_short(results.get((peer, scenario, store))) for scenario in SCENARIOS]
            if any(row):
                yield f"| {about.title} | {store or ('broker' if about.broker else 'none')} | {' | '.join(row)} |"


def _short(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if result.get("trouble"):
        return "not run"
    told = f"{result['duplicated']} / {result['missed']} of {result['expected']}"
    return told if result["duplicated"] == result["missed"] == 0 else f"**{told}**"


def details(results: Results) -> Iterator[str]:
    """A line for each cell."""
    yield "| peer | store | scenario | expected | duplicated | missed | run again by | after | versions | date | load |"
    yield "|---|---|---|---:|---:|---:|---|---:|---|---|---:|"
    for (peer, scenario, store), one in results.items():
        versions = ", ".join(f"{name} {number}" for name, number in one["versions"].items())
        versions += f" ({one['commit']})" if "commit" in one else ""
        after = f"{one['rerun_after']:.1f} s" if one.get("rerun_after") else ""
        told = (one["expected"], one["duplicated"], one["missed"]) if not one.get("trouble") else ("", "", "")
        why = one.get("rerun", "") or (f"not run: {one['trouble']}".replace("|", "/") if one.get("trouble") else "")
        cells = (PEERS[peer].title, store, scenario, *told, why, after, versions, one["date"], one["load"])
        yield f"| {' | '.join(map(str, cells))} |"


def scenarios(_results: Results) -> Iterator[str]:
    yield "| scenario | what happens | slots | period | the job takes |"
    yield "|---|---|---:|---:|---:|"
    for name, scene in SCENARIOS.items():
        doc = " ".join((scene.fault.__doc__ or "").split())
        yield f"| `{name}` | {scene.title}. {doc} | {scene.slots} | {scene.period} s | {scene.works} s |"


def total(results: Results) -> Iterator[str]:
    ours = [one for name, one in results.items() if PEERS[name[0]].ours]
    others = [one for name, one in results.items() if not PEERS[name[0]].ours]
    for title, some in (("cronce", ours), ("the others", others)):
        played = [one for one in some if not one.get("trouble")]
        slots, minutes = sum(one["expected"] for one in played), sum(one.get("seconds", 0) for one in some) / 60
        bad = sum(bool(one["duplicated"] or one["missed"]) for one in played)
        extra, missed = (sum(one[key] for one in played) for key in ("duplicated", "missed"))
        yield (
            f"- {title}: {len(played)} cells, {slots} slots, {extra} duplicated, {missed} missed;"
            f" {bad} cells with either; {minutes:.0f} minutes of play"
        )


TABLES: Final = {"total": total, "summary": summary, "details": details, "scenarios": scenarios}

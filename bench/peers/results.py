"""What was measured, cell by cell, in one file that is part of the checkout."""

import json
import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from threading import Lock
from typing import Any, Final

from bench.peers.cell import SLACK, Counted, play
from bench.peers.peers import PEERS, ROOT, versions_of
from bench.peers.scenarios import DST, SCENARIOS

FILE: Final = ROOT / "docs" / "peers.json"
TRIES: Final = 3
"""How often a cell is played that was short of a core and came out badly."""

Name = tuple[str, str, str]
"""Peer, scenario, store."""

_WRITING = Lock()


def cells() -> list[Name]:
    """All that there are: ours on PostgreSQL first, then ours on other stores, then the others."""
    every = [
        (peer, scenario, store)
        for peer, about in PEERS.items()
        for store in about.stores or ("",)
        for scenario in SCENARIOS
        if _is_played(peer, scenario, store)
    ]
    return sorted(every, key=lambda name: (not PEERS[name[0]].ours, PEERS[name[0]].ours and name[2] != "postgresql"))


def _is_played(peer: str, scenario: str, store: str) -> bool:
    about, scene = PEERS[peer], SCENARIOS[scenario]
    if scenario == DST:
        return store == (about.stores or ("",))[0]
    where = store or ("valkey" if about.broker else "")
    if where not in scene.stores:
        return False
    return not about.ours or store == "postgresql" or scene.everywhere


def load() -> dict[Name, dict[str, Any]]:
    found = json.loads(FILE.read_text())["cells"] if FILE.exists() else []
    return {(one["peer"], one["scenario"], one["store"]): one for one in found}


def measure(name: Name) -> dict[str, Any]:
    """Play a cell. One that was short of a core and came out badly is played again; every result is kept."""
    tries: list[Counted] = []
    while not tries or (len(tries) < TRIES and not tries[-1].clean and tries[-1].starved > SLACK):
        tries.append(play(*name))
    counted = tries[-1]
    peer, scenario, store = name
    result = {
        "peer": peer, "scenario": scenario, "store": store,
        **{key: value for key, value in counted._asdict().items() if value or key in ("duplicated", "missed")},
        "date": datetime.now(UTC).date().isoformat(), "load": round(os.getloadavg()[0]), "versions": versions_of(peer),
    }  # fmt: skip
    if PEERS[peer].ours:
        result["commit"] = commit()
    if len(tries) > 1:
        result["earlier"] = [[one.duplicated, one.missed, one.starved] for one in tries[:-1]]
    _keep(name, result)
    return result


@cache
def commit() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _keep(name: Name, result: dict[str, Any]) -> None:
    with _WRITING:
        kept = load()
        if name not in kept or "trouble" not in result:  # what could not be played this time takes no result away
            kept[name] = result
        ordered = [kept[one] for one in _ordered(list(kept))]
        lines = ",\n".join(json.dumps(one) for one in ordered)
        FILE.write_text(f'{{"cells": [\n{lines}\n]}}\n')


def _ordered(names: Sequence[Name]) -> list[Name]:
    peers, scenarios = list(PEERS), list(SCENARIOS)
    known = [name for name in names if name[0] in peers and name[1] in scenarios]
    return sorted(known, key=lambda name: (peers.index(name[0]), name[2], scenarios.index(name[1])))

"""Three processes with one nightly agent, killed in the middle of a paid call, or right after: each is paid once."""

import os
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.integrations.agents.market import Market, market

KINDS = ("plain", "graph")

pytestmark = pytest.mark.xdist_group("the nights of the agents")


class Night(NamedTuple):
    """Of one kind of agent: the market, what the processes said, and how they ended."""

    shop: Market
    said: list[str]
    codes: str


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Night]:
    """Both kinds at once: it is the waiting for leases that takes time, and the imports."""
    folder = tmp_path_factory.mktemp("night")
    env = {**os.environ, "CRONCE_URL": f"sqlite:///{folder}/cronce.db", "NIGHT": str(folder)}
    with market(fatal="charge") as plain, market(fatal="charge") as graph:
        shops = dict(zip(KINDS, (plain, graph), strict=True))
        words = [f"{kind}={shop.url}" for kind, shop in shops.items()]
        command = [sys.executable, "-m", "tests.integrations.agents.agent", *words]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=110, check=True)
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    told = {kind: [text for who, text in lines if who == kind] for kind in KINDS}
    return {kind: Night(shops[kind], said, codes) for kind, (*said, codes) in told.items()}


@pytest.mark.parametrize(("kind", "killed"), [("plain", 1), ("graph", 2)])
def test_each_thought_and_each_tool_is_paid_once(nights: dict[str, Night], kind: str, killed: int) -> None:
    shop, said, codes = nights[kind]
    late = ["it is closed: succeeded"] * (2 - killed)
    assert sorted(said) == ["['search 2', 'charge 4', 'mail 6']", *late]
    assert codes == str([-signal.SIGKILL] * killed + [0] * (3 - killed))
    assert shop.bill == {"thought": 4, "search": 1, "charge": 1, "mail": 1}
    assert len(set(shop.buyers)) == killed + 1  # whoever came later had nothing to do

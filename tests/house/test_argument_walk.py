"""Which files of the protocol a claim and its end pass through, traced."""

import json
import subprocess
import sys

from tests.house.test_argument import ARGUMENT, BESIDE, ROOT

WALK = """
import json, sys
from pathlib import Path

passed = set()

def trace(frame, event, _arg):
    if event == "call":
        passed.add(frame.f_code.co_filename)

from cronce.protocol.commands import Finish
from cronce.protocol.record import Outcome
from tests.runtime.shelf import DURABLE, HandNode, HandClock, Wire, granted

node = HandNode(Wire(HandClock(), DURABLE))
sys.setprofile(trace)
grant = granted(node)
node.do(node.ledger.exchange([(grant, Finish(grant.fence, Outcome.SUCCEEDED), False)], []))
sys.setprofile(None)
source = Path("src/cronce").resolve()
inside = [Path(file) for file in passed if Path(file).is_relative_to(source)]
print(json.dumps(sorted(path.relative_to(source).as_posix() for path in inside)))
"""


def test_a_claim_and_its_end_pass_through_no_other_file_of_the_protocol() -> None:
    """In an interpreter of its own: CPython 3.11.2 can hang for ever where a warm one begins to be profiled."""
    walk = subprocess.run([sys.executable, "-c", WALK], cwd=ROOT, check=True, capture_output=True, text=True)
    passed = {name for name in json.loads(walk.stdout) if name.startswith("protocol/")}
    argued = {name for name in ARGUMENT if name.startswith("protocol/")}
    assert passed | {"protocol/commands.py"} == argued | {*BESIDE}

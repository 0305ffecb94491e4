"""cronce why: why a slot ran, runs or did not run. The facts are `runtime.why`'s, the words `story`'s."""

import argparse
import json
from typing import TYPE_CHECKING, Final

from cronce.cli.looking import add_store, looking
from cronce.clock import SystemClock
from cronce.model import Slot, check_name
from cronce.runtime.flow import drive
from cronce.runtime.look import job_names, refuse_unknown, slot_named
from cronce.runtime.why import Case, Why, why
from cronce.telling.story import about, tell
from cronce.telling.whys import why_document

if TYPE_CHECKING:
    from cronce.stores.base import Store

EXAMPLES = """
examples:
  cronce why order-sync
  cronce why order-sync@2026-03-29T01:00:00Z
  cronce why order-sync@2026-03-29T01:00:00Z#again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="JOB|SLOT", help="a job, or a slot such as order-sync@2026-03-29T01:00:00Z")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    job, wanted = _asked(options.what)
    with looking(options) as store:
        found = _found(job, wanted, store)
    if options.json:
        print(json.dumps(why_document(found)))
    else:
        print("\n\n".join([*([] if wanted else [about(found)]), *(tell(story, found) for story in found.stories)]))
    return 1 if any(story.case in _NOTHING for story in found.stories) else 0


_NOTHING: Final = (Case.NO_SLOT, Case.NO_REQUEST)


def _asked(what: str) -> tuple[str, Slot | None]:
    """The job, and which of its slots if one was named."""
    if "@" not in what:
        return check_name(what), None
    wanted = slot_named(what)
    return wanted.job, wanted


def _found(job: str, wanted: Slot | None, store: "Store") -> Why:
    clock = SystemClock()
    found = drive(why(job, wanted, store.traits), store, clock)
    if found is None:
        refuse_unknown(job, drive(job_names(), store, clock))
    assert found is not None
    return found

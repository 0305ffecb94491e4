"""One run: the story of its slot."""

from cronce.model import Slot, Traits
from cronce.runtime.flow import Flow
from cronce.runtime.why import Why, why


def run_view(slot: Slot, traits: Traits) -> Flow[Why | None]:
    """All that is known of one slot, and of its job; None: there is no such job."""
    return (yield from why(slot.job, slot, traits))

"""What became of the invoices, by the receiver's own books. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable

from cronce.value import NamedTuple


class Verdict(NamedTuple):
    variant: str
    store: str
    seed: int
    invoices: int
    kills: int
    pauses: int
    replies_dropped: int
    """By the store's side: what was asked for was done, and the answer swallowed."""
    answers_dropped: int
    """By the receiver's side: it charged, or had before, and hung up."""
    requests: int
    """To charge something, as the receiver saw them; in a joined transaction only those that were committed."""
    charges: int
    duplicates: int
    missing: int
    seconds: float
    charged_once: int = 0
    """Night after night: invoices that were charged once before a script looked into what is in doubt."""
    waiting: int = 0
    """Those that were not charged then, and in doubt."""
    in_doubt: int = 0
    """Effects that the script looked up in the receiver's books, and resolved: charged or not."""
    unexplained: int = 0
    """Invoices that were not charged then, and not in doubt either."""
    reruns: int = 0
    """Slots that went wrong, and were run again by hand."""
    once_after: int = 0
    """Invoices that were charged once when the script had resolved what was in doubt, and one more night had run."""

    @property
    def once_each(self) -> bool:
        return (self.charges, self.duplicates, self.missing, self.unexplained) == (self.invoices, 0, 0, 0)


def count(charged: Iterable[int], invoices: Collection[int]) -> tuple[int, int, int]:
    """Charges; those beyond one for each invoice, or for no invoice at all; invoices that were never charged."""
    counted = Counter(charged)
    extra = sum(number - (invoice in invoices) for invoice, number in counted.items())
    return counted.total(), extra, len([invoice for invoice in invoices if invoice not in counted])

"""Words to whoever reads standard error. Nobody need take them: a full disk, or a reader who has gone, is no reason to
leave a run undone."""

import sys
from contextlib import suppress


def tell(text: str) -> None:
    if sys.stderr is not None:  # a caller may have closed it
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)

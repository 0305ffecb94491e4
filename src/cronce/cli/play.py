"""What commands share that start processes: a folder for their files, and an end that leaves nothing behind."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cronce.errors import BadInput


@contextmanager
def folder(saved: Path | None) -> Iterator[Path]:
    """Where the files are: of no further use after the verdict, unless somebody wants to look at them."""
    if saved is None:
        with tempfile.TemporaryDirectory(prefix="cronce-") as made:
            yield Path(made)
        return
    try:
        saved.mkdir(parents=True, exist_ok=True)
        used = any(saved.iterdir())
    except OSError as error:
        raise BadInput(f"--save {saved}: {error.strerror}") from None
    if used:
        raise BadInput(f"--save {saved}: there are files in it; name a new directory")
    yield saved.resolve()


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Whoever ends it with TERM, or by closing the terminal, leaves no process and no file behind either."""
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)

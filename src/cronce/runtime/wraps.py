"""What others want bodies to run within, such as a span of a tracer. None of it has a say: where it fails, that is
logged, and the body runs without it; what the body returned or raised stays what it was."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType

from cronce.runtime.current import Around
from cronce.runtime.log import LOGGER
from cronce.runtime.run import Run


@contextmanager
def within(wraps: Sequence[Around], run: Run) -> Iterator[None]:
    with ExitStack() as stack:
        for wrap in wraps:
            stack.enter_context(_Wrapped(wrap, run))
        yield


class _Wrapped:
    def __init__(self, wrap: Around, run: Run) -> None:
        self._wrap, self._run = wrap, run
        self._entered: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        try:
            made = self._wrap(self._run)
            made.__enter__()
            self._entered = made
        except Exception:
            LOGGER.exception("%s runs without %s, which failed", self._run, self._wrap)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._entered is None:
            return
        try:
            self._entered.__exit__(kind, error, at)
        except Exception as another:
            if another is not error:
                LOGGER.exception("%s ran, and then %s failed", self._run, self._wrap)

"""An OpenTelemetry span for each run, current while its job function runs: what that traces is a part of it.

This needs only OpenTelemetry's API. To see spans, configure a provider: in the application, or by
`opentelemetry-instrument cronce run app:cron`. The package is imported on first use, never before.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from cronce import __version__
from cronce.errors import BadInput
from cronce.events import Event, What
from cronce.model import Fence, spell
from cronce.runtime.app import Cronce
from cronce.runtime.run import Run

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

CONFIGURED: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Environment variables that say where spans go."""


def trace(cron: Cronce, tracer_provider: "TracerProvider | None" = None) -> None:
    """A span for each job function that runs here, from now on: `cronce.run billing`."""
    try:
        from opentelemetry.trace import get_tracer  # noqa: PLC0415  an extra
    except ImportError:
        raise BadInput("traces need OpenTelemetry: pip install 'cronce[otel]'") from None
    spans = Spans(get_tracer("cronce", __version__, tracer_provider))
    cron.around(spans.around)
    cron.on_event(spans.hear)


def trace_if_configured(cron: Cronce) -> None:
    """If OpenTelemetry is installed, and the application uses it or the environment says where spans go."""
    named = any(os.environ.get(name) for name in CONFIGURED) and find_spec("opentelemetry") is not None
    if named or "opentelemetry.trace" in sys.modules:
        trace(cron)


class Spans:
    """A job function returns before its outcome is known, so its span stays open until then."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self._open: dict[Fence, Span] = {}

    @contextmanager
    def around(self, run: Run) -> Iterator[None]:
        from opentelemetry.trace import use_span  # noqa: PLC0415

        span = self._tracer.start_span(f"cronce.run {run.job}", attributes=_attributes(run))
        self._open[run.fence] = span
        run.environment.update(_carried(span))
        with use_span(span, record_exception=True, set_status_on_exception=False):
            yield

    def hear(self, event: Event) -> None:
        if event.what is not What.ENDED or event.fence is None or (span := self._open.pop(event.fence, None)) is None:
            return
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        span.set_attributes({"cronce.outcome": event.outcome, "cronce.holder": event.holder})
        if event.outcome != "succeeded":
            span.set_status(StatusCode.ERROR, event.outcome)
        span.end()


def _attributes(run: Run) -> dict[str, str | int]:
    return {
        "cronce.job": run.job,
        "cronce.slot": spell(run.at),
        "cronce.fence": str(run.fence),
        "cronce.attempt": run.attempt,
    }


def _carried(span: "Span") -> dict[str, str]:
    """What a command gets in its environment, so that its spans become a part of this one."""
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    return {name.upper(): value for name, value in carrier.items()}

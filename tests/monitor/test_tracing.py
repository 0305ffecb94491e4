"""A span of OpenTelemetry's real library for each run, and what the body traces inside it."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from cronce import Cronce, Run, Skipped
from cronce.errors import BadInput
from cronce.monitor import tracing
from cronce.monitor.tracing import trace, trace_if_configured
from tests.house.wait import wait_until

SLOT = "2026-03-01T00:00:00Z"
ROOT = Path(__file__).parents[2]


class Traced:
    """An application whose spans are kept."""

    def __init__(self, folder: Path) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("shop")
        self.cron = Cronce(f"sqlite:///{folder}/cronce.db")
        trace(self.cron, self.provider)

    def job(self, body: Any, name: str = "billing", **how: Any) -> Any:
        return self.cron.job("0 0 1 3 *", name=name, start_within="3650d", **how)(body).at(SLOT)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    traced = Traced(tmp_path)
    with traced.cron:
        yield traced
    traced.provider.shutdown()


def is_within(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    assert inner.start_time is not None
    assert inner.end_time is not None
    assert outer.start_time is not None
    assert outer.end_time is not None
    assert inner.parent is not None
    assert outer.context is not None
    return (
        inner.parent.span_id == outer.context.span_id
        and outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time
    )


def test_a_run_is_a_span_and_what_its_body_traces_is_within_it(traced: Traced) -> None:
    fences = []

    def body(run: Run) -> str:
        fences.append(str(run.fence))
        with traced.tracer.start_as_current_span("mail"):
            return "done"

    billing = traced.job(body)
    assert billing() == "done"
    assert isinstance(billing(), Skipped)  # which is no run
    span = traced.spans["cronce.run billing"]
    assert is_within(traced.spans["mail"], span)
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    attributes = dict(span.attributes or {})
    assert str(attributes.pop("cronce.holder")).count(":") == 2
    assert attributes == {
        "cronce.job": "billing",
        "cronce.slot": SLOT,
        "cronce.fence": fences[0],
        "cronce.attempt": 1,
        "cronce.outcome": "succeeded",
    }
    assert len(traced.spans) == 2


def test_a_run_that_fails_is_an_error_with_what_was_raised(traced: Traced) -> None:
    with pytest.raises(ZeroDivisionError):
        traced.job(lambda: 1 / 0)()
    span = traced.spans["cronce.run billing"]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "failed")
    assert [(event.name, (event.attributes or {})["exception.type"]) for event in span.events] == [
        ("exception", "ZeroDivisionError")
    ]


def test_a_command_that_fails_raises_nothing_and_is_an_error_all_the_same(traced: Traced) -> None:
    printed = traced.cron.command("printenv", ["sh", "-c", "exit 3"], "0 0 1 3 *", start_within="3650d")
    assert printed.at(SLOT)() == 3
    span = traced.spans["cronce.run printenv"]
    assert (span.status.status_code, (span.attributes or {})["cronce.outcome"]) == (StatusCode.ERROR, "failed")


def test_coroutines_side_by_side_each_have_their_own(traced: Traced) -> None:
    both = asyncio.Barrier(2)

    async def body(run: Run) -> None:
        await both.wait()
        with traced.tracer.start_as_current_span(f"mail {run.job}"):
            await both.wait()

    async def main() -> None:
        await asyncio.gather(*(traced.job(body, name)() for name in ("one", "two")))

    asyncio.run(main())
    for name in ("one", "two"):
        assert is_within(traced.spans[f"mail {name}"], traced.spans[f"cronce.run {name}"])


def test_a_call_within_a_request_is_a_part_of_it(traced: Traced) -> None:
    with traced.tracer.start_as_current_span("POST /bill"):
        traced.job(lambda: None)()
    assert is_within(traced.spans["cronce.run billing"], traced.spans["POST /bill"])


def test_the_schedulers_threads_trace_too_and_start_no_span_for_what_is_not_run(traced: Traced) -> None:
    def body(run: Run) -> None:
        with traced.tracer.start_as_current_span("mail"):
            pass

    traced.cron.job(every="1s", name="tick")(body)
    with traced.cron.start() as scheduler:
        assert scheduler.wait_ready(60)
        wait_until(lambda: "cronce.run tick" in traced.spans)
    ticks = [span for span in traced._exporter.get_finished_spans() if span.name == "cronce.run tick"]
    assert all(span.parent is None for span in ticks)
    assert len({(span.attributes or {})["cronce.slot"] for span in ticks}) == len(ticks)


def test_a_body_in_another_process_is_told_of_its_span_and_of_its_run(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APART_URL", f"sqlite:///{tmp_path}/apart.db")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    from tests.monitor import apart  # noqa: PLC0415  it names its store by the environment

    with apart.cron:
        trace(apart.cron, traced.provider)
        told = apart.apart.at(SLOT)()
    context = traced.spans["cronce.run apart"].context
    assert context is not None
    parent = f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"
    assert isinstance(told, dict)
    assert told.pop("current").startswith(f"<run 1 of apart@{SLOT}, fence ")
    assert told == {"run": f"apart@{SLOT}", "traceparent": parent}


# --- and nothing of it is a reason not to run -----------------------------------------------------------------------


class Broken(SpanProcessor):
    """What an application may have by mistake."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("no collector at the start")

    def on_end(self, span: Any) -> None:
        raise OSError("no collector at the end")


def test_a_tracer_that_fails_keeps_no_body_from_running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken())

    async def body() -> str:
        return "ran, awaited"

    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        trace(cron, provider)
        how: Any = {"start_within": "3650d"}
        assert cron.job("0 0 1 3 *", name="plain", **how)(lambda: "ran").at(SLOT)() == "ran"
        assert asyncio.run(cron.job("0 0 1 3 *", name="awaited", **how)(body).at(SLOT)()) == "ran, awaited"
    assert caplog.text.count("OSError: no collector at the start") == 2


@contextmanager
def clumsy(_run: Run) -> Iterator[None]:
    try:
        yield
    finally:
        raise OSError("at the end")


@contextmanager
def swallows(_run: Run) -> Iterator[None]:
    with suppress(Exception):
        yield


def test_what_fails_after_a_body_changes_neither_its_result_nor_its_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        for wrap in (clumsy, swallows):
            cron.around(wrap)
        how: Any = {"start_within": "3650d"}
        assert cron.job("0 0 1 3 *", name="well", **how)(lambda: "ran").at(SLOT)() == "ran"
        error = KeyError("mine")

        def fails() -> None:
            raise error

        with pytest.raises(KeyError) as caught:
            cron.job("0 0 1 3 *", name="ill", **how)(fails).at(SLOT)()
        assert caught.value is error
    assert caplog.text.count("OSError: at the end") == 2


def test_who_times_the_store_badly_keeps_nothing_from_running(caplog: pytest.LogCaptureFixture) -> None:
    def deaf(_request: str, _seconds: float) -> None:
        raise OSError("it cannot count")

    heard: list[str] = []
    with Cronce("memory:") as cron:
        cron.on_call(deaf)
        cron.on_call(lambda request, _seconds: heard.append(request))
        assert cron.job("0 0 1 3 *", name="billing", start_within="3650d")(lambda: "ran").at(SLOT)() == "ran"
    assert heard
    assert "it cannot count" in caplog.text


# --- who asks for it ------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
from cronce import Cronce
from cronce.monitor.tracing import trace_if_configured
trace_if_configured(Cronce("memory:"))
print("opentelemetry" in sys.modules)
"""


@pytest.mark.parametrize(("variable", "loaded"), [("OTEL_SERVICE_NAME", False), (tracing.CONFIGURED[0], True)])
def test_nothing_is_imported_unless_somebody_said_where_spans_go(variable: str, loaded: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env={variable: "http://collector:4318"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{loaded}\n"


def test_whoever_asks_for_spans_without_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(BadInput, match=r"pip install 'cronce\[otel\]'"):
        trace(Cronce("memory:"))


def test_an_application_that_uses_the_library_is_traced_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Cronce] = []
    monkeypatch.setattr(tracing, "trace", seen.append)
    cron = Cronce("memory:")
    trace_if_configured(cron)
    assert seen == [cron]

"""docs/reference/metrics.md, made of the catalogue: `python -m tests.monitor.metrics_page > …/metrics.md`."""

from pathlib import Path

from cronce.monitor.metrics import JOB_LABELS, METRICS, Metric

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

INTRO = f"""\
# Metrics

What `/metrics` of [`cronce run --health`](commands-run.md#health) says, in Prometheus's text format; [how to use
it](../how-to/metrics.md). These are all there are: no hosts, no URLs, no errors, no payloads.

- **Labels are bounded.** The first {JOB_LABELS} jobs that a process counts have a label of their own, the others share
  `job="other"`. `result` is won, lost or refused; `outcome` succeeded, failed, unknown, given back (its body never came
  to work) or not known yet; `call` load, swap, scan or purge; `kind` run, lock or leader.
- **Of several processes** (`-n 3`) counters and histograms add up. Gauges become one as the table says: the *sum*, the
  largest (*max*), the smallest (*min*), or the one furthest from 0 (*widest*). A process that died, or has said nothing
  for 15 seconds, adds no gauges; what it counted stays, and its successor counts on, so no counter falls while
  `cronce run` lives. What a process counted in the last second before a `kill -9` is not in there.
- **Of several machines**, each counts what it did: `sum(rate(…))` over all. `cronce_schedulers_live` and `cronce_cells`
  are the same everywhere: `max(…)`.

| metric | kind | labels | of several | what |
|---|---|---|---|---|
"""

BUCKETS = """
## Buckets

Upper bounds, in seconds.

| histogram | bounds |
|---|---|
"""


def text() -> str:
    histograms = [metric for metric in METRICS.values() if metric.buckets]
    bounds = [f"| `{one.name}` | {', '.join(f'{bound:g}' for bound in one.buckets)} |" for one in histograms]
    return INTRO + "\n".join([*map(_row, METRICS.values()), ""]) + BUCKETS + "\n".join([*bounds, ""])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    merge = metric.merge if metric.kind == "gauge" else "sum"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {merge} | {metric.help} |"


if __name__ == "__main__":
    print(text(), end="")

"""What the page and its API read the store by. Flows that only read: each makes a bounded number of requests for a
bounded number of cells, whatever the store holds, and says where there is more. A cell that cannot be read is shown as
that, or left out.
"""

from cronce.monitor.reading.index import JobIndex, Matches
from cronce.monitor.reading.jobs import (
    HostRefused,
    JobsPage,
    JobView,
    Took,
    job_lines,
    job_view,
    lines_alone,
    lines_of,
    next_up,
)
from cronce.monitor.reading.notices import (
    AlertsPage,
    BeatsSeen,
    HeldPage,
    ObservedSeen,
    alerts,
    beats,
    leaders,
    locks,
    observed,
)
from cronce.monitor.reading.overview import Count, HolderLine, Overview, effects_in_doubt, holders, overview
from cronce.monitor.reading.runs import Runs, RunsPage, newest_runs
from cronce.monitor.reading.story import run_view
from cronce.monitor.reading.stretch import Ghost, Stretch, stretch, stretch_of

__all__ = [
    "AlertsPage",
    "BeatsSeen",
    "Count",
    "Ghost",
    "HeldPage",
    "HolderLine",
    "HostRefused",
    "JobIndex",
    "JobView",
    "JobsPage",
    "Matches",
    "ObservedSeen",
    "Overview",
    "Runs",
    "RunsPage",
    "Stretch",
    "Took",
    "alerts",
    "beats",
    "effects_in_doubt",
    "holders",
    "job_lines",
    "job_view",
    "leaders",
    "lines_alone",
    "lines_of",
    "locks",
    "newest_runs",
    "next_up",
    "observed",
    "overview",
    "run_view",
    "stretch",
    "stretch_of",
]

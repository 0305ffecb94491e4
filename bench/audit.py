"""`python -m bench.audit`: a million lines of real Python audited, against a limit of 60 seconds and 500 MB.

The tree is made of the packages that are installed here: code that people wrote, copied until there are a million
lines, with a scheduler at the end of every file, so that no file can be passed over. *Bare* is one interpreter that
parses the same files and does nothing with them. Both take turns; the medians are told, and beside the seconds those of
the processors, which other work on the machine changes less. Memory is that of all processes of the audit together,
what they share counted once (PSS), looked at twenty times a second.
"""

import os
import resource
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

LINES: Final = 1_000_000
TURNS: Final = 3
SECONDS: Final = 60.0
MEGABYTES: Final = 500.0
PARSE: Final = """
import ast, pathlib, sys, warnings
warnings.simplefilter("ignore")
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    ast.parse(path.read_bytes())
"""


SCHEDULER: Final = """

from apscheduler.schedulers.background import BackgroundScheduler


def tick() -> None:
    pass


scheduler = BackgroundScheduler()
scheduler.add_job(tick, "interval", minutes=5)
scheduler.start()
"""


class Cost(NamedTuple):
    seconds: float
    megabytes: float
    processors: float


def plant(root: Path) -> int:
    """Copy installed packages, in the order of their names, until there are enough lines. Those of tests count as well,
    under names that the auditor does not leave out."""
    lines = 0
    packages = Path(sysconfig.get_path("purelib"))
    for number, path in enumerate(sorted(packages.rglob("*.py"))):
        text = path.read_bytes()
        with suppress(SyntaxError, ValueError):
            compile(text, str(path), "exec", dont_inherit=True)
            folder = root / path.relative_to(packages).parts[0].removesuffix(".py")
            folder.mkdir(exist_ok=True)
            (folder / f"m{number}.py").write_bytes(text + SCHEDULER.encode())
            lines += text.count(b"\n")
        if lines >= LINES:
            break
    return lines


def run(command: Sequence[str]) -> Cost:
    """To its end; an audit that finds something exits with 1."""
    began, before, most = time.perf_counter(), _processors(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(map(_pss, _family(process.pid))))
            time.sleep(0.05)
    assert process.returncode in (0, 1), command
    return Cost(time.perf_counter() - began, most, _processors() - before)


def _processors() -> float:
    """Seconds that all children have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _pss(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    with TemporaryDirectory() as name:
        lines = plant(Path(name))
        audit = [sys.executable, "-m", "cronce", "audit", name, "--json"]
        bare = [sys.executable, "-c", PARSE, name]
        print(f"{lines:,} lines of Python in {sum(1 for _ in Path(name).rglob('*.py')):,} files")
        turns = [(run(audit), run(bare)) for _ in range(TURNS)]
    seconds = median(ours.seconds for ours, _ in turns)
    megabytes = median(ours.megabytes for ours, _ in turns)
    parsing = median(theirs.seconds for _, theirs in turns)
    processors = median(ours.processors for ours, _ in turns)
    print(f"audit {seconds:.1f} s (limit {SECONDS:g}), {megabytes:.0f} MB (limit {MEGABYTES:g})")
    print(f"processors {processors:.1f} s, for {os.cpu_count()} of them")
    print(f"parsing alone, in one process, {parsing:.1f} s: the audit takes {seconds / parsing:.2f} of it")
    return int(seconds > SECONDS or megabytes > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())

"""cronce torture and simulate: faults on your own store, and the protocol played under crashes, pauses, lost replies
and bad clocks; and whether every promise was kept."""

import argparse
import os
import random
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Final, get_args

from cronce.cli import refuse_outside, say
from cronce.cli.demo import ended_like_ctrl_c, folder
from cronce.cli.session import read_words
from cronce.cli.terminal import ColouredText, Screen, bar, filled, paint, screen, show
from cronce.errors import BadInput
from cronce.policy import OnLost
from cronce.runtime.app_loading import load
from cronce.stores.default import choose, pinned
from cronce.telling.words import safe
from cronce.testing.chaos import FAULTS, SITUATIONS, play_out, stage
from cronce.testing.effects_table import by_way, printed
from cronce.testing.mutants import MUTANTS, mutated
from cronce.testing.referee import Violation
from cronce.testing.simulate import Simulation, simulate
from cronce.torture.fault_actions import Hook
from cronce.torture.harness import Torture, TortureResult, TortureSettings
from cronce.torture.picture import counted, html, svg
from cronce.torture.verdict import TortureVerdict, added

SHORTEST_TORTURE: Final = 5
SEEDS: Final = 1_000_000
RESTART_TIMEOUT: Final = 120
"""Seconds that a command may take that restarts the store."""

OUTPUT_SHOWN: Final = 400
"""Characters of what such a command said at last, if it failed."""

AROUND: Final = 6
"""Seconds that it takes to begin, and to settle what is still open at the end, most often."""

TORTURE_DESCRIPTION: Final = """\
Processes whose clocks are up to five seconds wrong call two jobs every second, on your own store. They are killed,
paused and disconnected, one of them or all; replies to their writes are lost or late. The job functions write a ledger
file of their own; at the end it is compared with the records in the store. The jobs have names of their own, and their
records are removed from the store afterwards.

With --scheduler the processes are schedulers: they are also restarted one by one, drained by colour, killed all at
once, and given a newer version of the jobs that is rolled back later. With MODULE:OBJECT the jobs are yours: the last
slots of each of your schedules, with your policies, one each second. A counter replaces your functions; --really runs
them.

exit codes: 0 every promise was kept; 1 one was broken; 2 the options are wrong, the store refused a request, or the
command of --restart failed; 75 the store cannot be reached, or stopped answering; 78 the store cannot be used. With any
other code than 0 and 1 nothing was judged."""


def add_torture_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("app", nargs="?", default="", metavar="MODULE:OBJECT", help="torture the jobs of your app: app:cron")
    add("--store", "--url", dest="url", metavar="URL", help="the store (default: $CRONCE_URL, then the config)")
    add("--seconds", type=int, default=60, metavar="N", help="how many slots each job has (default 60)")
    add("--processes", type=int, default=6, metavar="N", help="how many processes (default 6)")
    add("--scheduler", action="store_true", help="torture schedulers, cron.run(), instead of calls of guarded jobs")
    add("--on-lost", choices=get_args(OnLost), help="torture a job with this policy only (default: one of each)")
    add("--really", action="store_true", help="run the functions of your app (default: a counter in their place)")
    add("--beside-live", action="store_true", help="torture your app even if live schedulers use the store")
    add("--seed", type=int, metavar="N", help="repeat the plan of an earlier torture (default: a new one)")
    add("--restart", metavar="COMMAND", help="a command that restarts the store: 'systemctl restart postgresql'")
    add("--picture", type=Path, metavar="FILE", help="draw what happened: FILE.html or FILE.svg")
    add("--save", type=Path, metavar="DIR", help="keep the cells in the store, and the ledger files in this directory")
    add("--json", action="store_true", help="print one JSON document")


def run_torture(options: argparse.Namespace) -> int:
    settings = _settings(options)
    draw = _drawing(options.picture)
    with ended_like_ctrl_c(), folder(options.save) as place:
        result = Torture(settings, place, partial(_show, settings)).run()
    if draw is not None:
        draw(result)
    show(options, document(result), "\n".join(_words(result, options, screen())))
    return 0 if result.passed else 1


def _show(settings: TortureSettings, due: int) -> None:
    if not due:  # the store is there, and whatever happens now, it can be repeated
        takes = f"{settings.processes} processes, about {settings.seconds + AROUND} s"
        say("torture", f"seed {settings.seed}, {takes}")
    bar("torture", due, settings.seconds)


# --- what is asked for ----------------------------------------------------------------------------------------------


def _settings(options: argparse.Namespace) -> TortureSettings:
    refuse_outside("--seconds", options.seconds, 3_600, SHORTEST_TORTURE)
    refuse_outside("--processes", options.processes, 32, 2)
    seed = random.randrange(SEEDS) if options.seed is None else options.seed  # noqa: S311  any will do
    refuse_outside("--seed", seed, SEEDS - 1, 0)
    _refuse_mixed(options)
    return TortureSettings(
        _url(options),
        options.seconds,
        options.processes,
        seed,
        (options.on_lost,) if options.on_lost else get_args(OnLost),
        restart=_restart(options.restart),
        keep=options.save is not None,
        scheduler=options.scheduler,
        app=options.app,
        really=options.really,
        beside_live=options.beside_live,
    )


def _refuse_mixed(options: argparse.Namespace) -> None:
    if options.app and (options.scheduler or options.on_lost):
        raise BadInput("the jobs of an app have policies of their own: leave out --scheduler and --on-lost")
    if options.really and not options.app:
        raise BadInput("--really runs the functions of an app, so name one: cronce torture app:cron --really")


def _url(options: argparse.Namespace) -> str:
    """The store that is named; else the app's own."""
    url = options.url
    if options.app and url is None:
        url = load(options.app)._named()
        if url is None:
            raise BadInput(f"the store of {options.app} is an object of one process; name another with --store")
    return pinned(choose(url)).url


def _restart(command: str | None) -> Hook | None:
    if command is None:
        return None
    words = read_words("--restart", command)
    if shutil.which(words[0]) is None:
        raise BadInput(f"--restart {command}: there is no program {words[0]} that can be run (cronce uses no shell)")
    return partial(_run_restart, words)


def _run_restart(words: Sequence[str]) -> None:
    """What it says goes to a file: at the end of a pipe we would wait for the very server that it starts."""
    with tempfile.TemporaryFile() as file:
        trouble = _trouble(words, file)
        if trouble:
            file.seek(0)
            said = safe(" ".join(file.read().decode(errors="replace").split())[-OUTPUT_SHOWN:])
            told = f"printed: {said}" if said else "printed nothing"
            raise BadInput(f"--restart: {shlex.join(words)} {trouble} and {told}; nothing was judged")


def _trouble(words: Sequence[str], output: IO[bytes]) -> str:
    """How a command failed; nothing if it did not."""
    try:
        done = subprocess.run(  # noqa: S603  the user's own command
            words, check=False, timeout=RESTART_TIMEOUT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    except subprocess.TimeoutExpired:
        return f"had not ended after {RESTART_TIMEOUT} s"
    except OSError as error:
        return f"could not be started ({error.strerror})"
    return f"ended with {done.returncode}" if done.returncode else ""


def _drawing(path: Path | None) -> Callable[[TortureResult], object] | None:
    """Asked before anything begins: a minute later is too late to learn that the file cannot be written. Until then it
    is left as it was, or is not there."""
    if path is None:
        return None
    draw = {".html": html, ".svg": svg}.get(path.suffix)
    if draw is None:
        raise BadInput(f"--picture {path}: name a file that ends in .html or .svg")
    try:
        was_there = path.exists()
        path.open("a").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise BadInput(f"--picture {path}: {error.strerror}") from None
    return lambda result: path.write_text(draw(result), encoding="utf-8")


# --- what is said ---------------------------------------------------------------------------------------------------


def document(result: TortureResult) -> dict[str, object]:
    """The whole, and each job by itself where there are two."""
    verdicts = result.verdicts
    whole = verdicts[0] if len(verdicts) == 1 else added(verdicts, "both")
    return {
        **whole._asdict(),
        "seed": result.settings.seed,
        "forgot": result.forgot,
        "faults": dict(sorted(result.faults.items())),
        "left_out": list(result.left_out),
        "jobs": [{**({"job": own} if own else {}), **verdict._asdict()} for own, verdict in _named(result)],
    }


def _named(result: TortureResult) -> list[tuple[str, TortureVerdict]]:
    """Each verdict, with what the user calls its job if it is the user's."""
    own = [task.own for task in result.tasks if task.own] or [""] * len(result.verdicts)
    return [*zip(own, result.verdicts, strict=True)]


def _words(result: TortureResult, options: argparse.Namespace, on: Screen) -> list[str]:
    settings = result.settings
    faults = ", ".join(f"{count} × {kind}" for kind, count in result.faults.most_common())
    lines = [f"{settings.processes} processes, {settings.seconds} s; {faults or 'no faults'}"]
    lines += [f"left out: {text}" for text in result.left_out]
    for own, verdict in _named(result):
        good = verdict.passed(forgot=result.forgot)
        label = paint(ColouredText(f"{own or verdict.on_lost}:", "good" if good else "bad"), on)
        lines.append(f"{label} {counted(verdict)}")
    if result.forgot:
        lines.append("The store lost records and reports that: those slots are unknown.")
    if options.picture is not None:
        lines.append(f"The picture is {options.picture}.")
    if result.passed:
        return [*lines, "", "Every promise was kept."]
    again = f"A promise was broken. Repeat it with --seed {settings.seed} --save DIR, and send us the files."
    return [*lines, "", *filled(again, on)]


# --- the simulation ---------------------------------------------------------------------------------------------------


def add_simulate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=400, help="how many histories to simulate (default 400)")
    mutants = "do not also simulate versions with a safeguard missing, to see them fail (a minute or two)"
    parser.add_argument("--no-mutants", action="store_true", help=mutants)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, help="replay one history and show what happened in it")
    parser.add_argument("--mutant", default="", help="with --seed: replay it with this safeguard missing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run_simulate(options: argparse.Namespace) -> int:
    if options.seeds < 1 or options.workers < 1:
        raise BadInput("--seeds and --workers must be 1 or more")
    if options.mutant and options.mutant not in MUTANTS:
        raise BadInput(f"there is no mutant {options.mutant!r}; there are:\n  " + "\n  ".join(MUTANTS))
    if options.mutant and options.seed is None:
        raise BadInput("--mutant needs --seed N: the history to replay without that safeguard")
    if options.seed is not None and options.json:
        raise BadInput("--json cannot be used with --seed: a replay is text")
    if options.seed is not None:
        return _replay(options.seed, options.mutant)
    result = simulate(options.seeds, mutants=not options.no_mutants, workers=options.workers, progress=bar)
    show(options, _simulated(result), _report(result))
    return 1 if result.played.violations or result.survivors else 0


def _replay(seed: int, mutant: str) -> int:
    """Play one seed again and print its history."""
    with mutated(mutant) if mutant else nullcontext():
        scene = stage(seed)
        scene.world.tracing = True
        try:
            play_out(scene)
            verdict, code = "no promise was broken", 0
        except Violation as violation:
            verdict, code = f"broken: {violation}", 1
    print("\n".join([*scene.world.trace, verdict]))
    return code


def _simulated(result: Simulation) -> dict[str, object]:
    played = result.played
    return {
        "seeds": played.seeds,
        "violations": len(played.violations),
        "mutants": result.mutants,
        "failed": [{"seed": seed, "promise": promise} for seed, promise in sorted(played.violations.items())],
        "faults": dict(sorted(played.faults.items())),
        "calls": played.calls,
        "starts": played.starts,
        "effects": by_way(played.effects),
    }


def _fault_counts(result: Simulation, kinds: Sequence[str]) -> list[str]:
    seen = [(result.played.faults[kind], kind) for kind in kinds if result.played.faults[kind]]
    return [f"  {count:>10,}  {kind}" for count, kind in sorted(seen, reverse=True)]


def _report(result: Simulation) -> str:
    played = result.played
    lines = [
        f"{played.seeds:,} histories, {played.calls:,} store calls, {played.starts:,} job functions started",
        "faults that were injected:",
        *_fault_counts(result, FAULTS),
        "situations that occurred:",
        *_fault_counts(result, SITUATIONS),
    ]
    lines += ["what happened to effects, by how they were guarded:", *printed(by_way(played.effects))]
    if result.unseen:
        lines.append(f"did not occur in so few histories: {', '.join(result.unseen)}")
    if result.mutants:
        lines.append("safeguards removed, and after how many histories that was noticed:")
        lines += [f"  {needed or 'NOT CAUGHT':>10}  {name}" for name, needed in result.mutants.items()]
    lines.append(f"promises broken: {len(played.violations)}")
    for seed, promise in sorted(played.violations.items()):
        lines.append(f"  {promise}\n    replay: cronce torture simulate --seed {seed}")
    return "\n".join(lines)

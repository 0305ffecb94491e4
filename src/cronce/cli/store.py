"""cronce store, doctor and purge: what a person decides about a store, whether it can be relied on from here, and
deleting what is not kept."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

from cronce.cli import Arguments, add_actions, add_arguments, host_settings, pasteable
from cronce.cli.session import STORE_AND_JSON, looking, missing, without_folder
from cronce.cli.terminal import ColouredText, Screen, bar, paint, screen, show
from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.integrations.crontab import entries
from cronce.model import Epoch, Origin
from cronce.protocol.retention import Keep, Kept, default_keep, read_keep
from cronce.runtime.clock_repair import set_clock
from cronce.runtime.doctor import examine
from cronce.runtime.node import Node
from cronce.runtime.operations import who
from cronce.runtime.queries import job_names, refuse_unknown
from cronce.stores import mask, module_of, scheme_of
from cronce.stores.base import Store
from cronce.stores.checks import Check, CheckVerdict, error, ok, warn
from cronce.stores.default import URL_VARIABLE, Chosen, choose, make_default_directory, open_chosen

# --- what a person decides --------------------------------------------------------------------------------------------

STORE_ACTIONS: Final = {
    "init": "initialise a store: it is empty because it is new, not because it lost its data",
    "adopt": "accept a copied, restored or network store; slots until now that it has no record of stay closed",
    "sql": "print the SQL that creates the tables, for a database where an administrator creates them",
    "clock": "confirm that the store's clock is right after it jumped, and repair records dated in the future",
}
WHY_NOT: Final = {
    "init": "this kind of store cannot be initialised",
    "adopt": "this kind of store cannot detect that it was copied, so there is nothing to adopt",
    "sql": "this kind of store needs no SQL; `cronce store sql` is for postgresql://, mysql:// and sqlite://",
}


URL: Final = {"[URL]": "the store (default: $CRONCE_URL, then the config)"}


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    for one in add_actions(parser, STORE_ACTIONS).values():
        add_arguments(one, URL | {"--store URL": "the same as URL"})


def run_store(options: argparse.Namespace) -> None:
    chosen = choose(options.url or options.store)
    url = chosen.url
    if options.action == "clock":
        print(f"{mask(url)}: {_set_clock(url)}")
        return
    function = getattr(module_of(url), {"sql": "ddl"}.get(options.action, options.action), None)
    if function is None:
        raise BadInput(f"{mask(url)}: {WHY_NOT[options.action]}")
    if options.action == "init":
        make_default_directory(chosen)
    result = function(url)
    if options.action == "sql":
        print(result)
    else:
        print(f"{mask(url)}: {_begun(options.action, result)}")


def _set_clock(url: str) -> str:
    with looking(argparse.Namespace(store=url)) as node:
        now, ahead = node.do(set_clock(node.ledger, who(), node.clock.wall()))
    repaired = {
        "jobs that start again from now on": ahead.jobs,
        "leases cut to their usual length": ahead.leases,
        "schedulers that must register again": ahead.holders,
    }
    said = ", ".join(f"{text}: {len(found):,}" for text, found in repaired.items() if found)
    confirmed = f"its clock says {now:%Y-%m-%d %H:%M:%S} UTC and is confirmed as right"
    return f"{confirmed}; {said or 'nothing is dated in the future'}"


def _begun(action: str, epoch: Epoch) -> str:
    born = f"{epoch.born:%Y-%m-%d %H:%M:%S} UTC"
    if action == "adopt" and epoch.forgot:
        return f"a new store since {born}; slots until then that it has no record of stay closed"
    if epoch.origin is Origin.MADE:
        return f"initialised on {born}"
    return f"it has held records since {born}, when it was found empty or was restored; nothing was changed"


# --- the doctor -------------------------------------------------------------------------------------------------------

DOCTOR_EPILOG = """
It writes a few cells to prove that a slot is claimed once, and removes them. A missing SQLite file is an
error and is not created, because its path may be misspelled; only the default file is created.

Cron and systemd start commands with an environment of their own, so they may use another store than this shell does.
--crontab and --unit check the store that they use.

exit codes: 0 all is well, or there are warnings only; 1 there is an error; 2 the URL cannot be used, or its driver is
not installed; 75 the store cannot be reached.

examples:
  cronce doctor
  cronce doctor postgresql://cronce@db/cronce
  cronce doctor --crontab                               this user's crontab
  cronce doctor --crontab /etc/cron.d/shop
  cronce doctor --unit /etc/systemd/system/cronce-order-sync.service
"""

LEVEL_SIGNS: Final[dict[CheckVerdict, ColouredText]] = {
    "ok": ColouredText("✓", "good"),
    "warn": ColouredText("!", "odd"),
    "error": ColouredText("✗", "bad"),
}
WORST: Final[tuple[CheckVerdict, ...]] = ("error", "warn", "ok")
STORE_COLUMN: Final = 14


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, URL)
    crontab = "the store that a crontab's lines use, as cron runs them (default: this user's crontab)"
    parser.add_argument("--crontab", nargs="?", const="", metavar="FILE", help=crontab)
    add_arguments(parser, {"--unit FILE": "the store that a systemd service uses", **STORE_AND_JSON})


def run_doctor(options: argparse.Namespace) -> int:
    seen: list[Check] = []
    code, on = 0, screen()

    def tell(check: Check) -> None:
        seen.append(check)
        if not options.json:
            print("\n".join(lines(check, on)), flush=True)

    urls = _urls(options, tell)
    for url in urls:
        try:
            for check in examine(url, SystemClock(), _open):
                tell(check)
        except StoreUnavailable:  # the last check says so
            code = 75
        except BadInput:
            code = 2
    verdict = worst(seen)
    show(options, _doctor_document(urls[0] if urls else "", verdict, seen), f"\n{summary(seen)}")
    return code or (1 if verdict == "error" else 0)


def _open(chosen: Chosen) -> Store:
    """The default file is made where it is missing; another that is missing may be misspelled."""
    path = "" if chosen.is_default else missing(chosen)
    if path:
        if nowhere := without_folder(path):
            raise StoreError(f"{nowhere}; create it, or check the path")
        new = f"if the store is new, `cronce store init {mask(chosen.url)}` creates it; else check the path"
        raise StoreError(f"there is no file {path}, and cronce did not create one; {new}")
    return open_chosen(chosen)


def _urls(options: argparse.Namespace, tell: Callable[[Check], None]) -> list[str | None]:
    """Which stores are meant: mostly one, and None is the one that everything here goes by."""
    said = [one for one in (options.url, options.store, options.crontab, options.unit) if one is not None]
    if len(said) > 1:
        raise BadInput("the store is named twice; give URL, --store URL, --crontab FILE or --unit FILE")
    if options.crontab is None and options.unit is None:
        return said or [None]
    name = "crontab" if options.unit is None else "unit"
    used = dict[str, list[str]]()
    for where, chosen in _callers(options):
        if isinstance(chosen, str):
            tell(error(name, f"{where}: {chosen}", ""))
        else:
            used.setdefault(chosen.url, []).append(where)
    for url, callers in used.items():
        tell(_used(name, url, callers))
    if len(used) > 1:
        remedy = f"name one store for all: {URL_VARIABLE}=… at its top, or url in /etc/cronce.toml"
        tell(error(name, f"it uses {len(used)} stores, so a slot can run once in each", remedy))
    if (own := _masked(None)) not in [mask(url) for url in used]:
        tell(
            warn("shell", f"this shell uses another store, {own}: `cronce runs` shows that", f"export {URL_VARIABLE}=…")
        )
    return list(used)


def _used(name: str, url: str, callers: Sequence[str]) -> Check:
    says = f"{', '.join(callers)} {'uses' if len(callers) == 1 else 'use'} {mask(url)}"
    if scheme_of(url) != "sqlite":
        return ok(name, says)
    return warn(
        name, f"{says}, which no other host sees", f"for several hosts set {URL_VARIABLE} to a store they share"
    )


def _callers(options: argparse.Namespace) -> Iterator[tuple[str, Chosen | str]]:
    """Each line, or the unit, that runs `cronce exec`, and the store it uses; or why it will run nothing."""
    if options.unit is not None:
        yield options.unit, host_settings.store_of(*host_settings.unit_environment(options.unit), "systemd")
        return
    path = Path(options.crontab)
    if options.crontab and not path.exists():
        raise BadInput(f"there is no file {path}")
    place = host_settings.SystemCrontab(options.crontab) if options.crontab else host_settings.UserCrontab(None)
    system = path.parent.name == "cron.d" or path == Path("/etc/crontab")
    found = [one for one in entries(place.read(), system=system) if one.guard == "cronce"]
    if not found:
        raise BadInput(f"no line of {place} runs `cronce exec`; `cronce deploy crontab wrap` wraps its lines in it")
    for one in found:
        yield (
            f"line {one.number}",
            host_settings.store_of(one.user or host_settings.this_user(), one.settings, one.command),
        )


def worst(seen: Iterable[Check]) -> CheckVerdict:
    verdicts = {check.verdict for check in seen}
    return next(verdict for verdict in WORST if verdict in verdicts)


def lines(check: Check, on: Screen) -> Iterator[str]:
    """The mark, the name and what it says; below it, indented, what to do about it."""
    indent = " " * (STORE_COLUMN + 2)
    said = _wrapped(check.says, on)
    yield f"{paint(LEVEL_SIGNS[check.verdict], on)} {check.name:<{STORE_COLUMN}}{said[0]}"
    yield from (f"{indent}{line}" for line in said[1:])
    yield from (
        f"{indent}{paint(ColouredText(line, 'dim'), on)}" for line in _wrapped(pasteable(check.remedy), on) if line
    )


def _wrapped(text: str, on: Screen) -> list[str]:
    plain = paint(text, on)
    return wrap(plain, max(on.width - STORE_COLUMN - 3, 20)) if on.width and plain else [plain]


def summary(seen: Iterable[Check]) -> str:
    verdicts = [check.verdict for check in seen]
    counted = [(verdicts.count("error"), "error"), (verdicts.count("warn"), "warning")]
    said = ", ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counted if count)
    return said or "all is well"


def _doctor_document(url: str | None, verdict: CheckVerdict, seen: Iterable[Check]) -> dict[str, object]:
    return {"url": _masked(url), "verdict": verdict, "checks": [check._asdict() for check in seen]}


def _masked(url: str | None) -> str | None:
    try:
        return mask(choose(url).url)
    except StoreError:  # none is named that could be used; a check says why
        return None


# --- purging ----------------------------------------------------------------------------------------------------------

PURGE_POLL: Final = 0.5

PURGE_EPILOG: Final = """
A slot whose run was deleted never runs again: cronce closes it first, by the job's floor, and deletes the run a minute
later. Running schedulers purge by themselves about once an hour; use this command to purge now, or to keep less. You
can interrupt it: the next purge goes on.

Without JOB it also deletes records of processes, locks and keys (@cron.idempotent, workers of queues) a day after they
were last needed. For that it first watches the store's clock for half a minute.

examples:
  cronce store purge --dry-run                                what would be deleted
  cronce store purge                                          by the default: 30 days, and at most 1,000 of each job
  cronce store purge billing --keep 100                       the newest 100 of each outcome
  cronce store purge --keep succeeded=50 --keep failed=90d    by outcome; what is not named is kept for 30 days
"""


PURGE_ARGUMENTS: Final[Arguments] = {
    "[JOB]": "this job (default: all)",
    "--keep [OUTCOME=]KEPT": ([], "how many runs to keep, or for how long"),
    "--dry-run": "only list what would be deleted",
    **STORE_AND_JSON,
}


def run_purge(options: argparse.Namespace) -> None:
    said = _keep(options.keep)
    with looking(options) as node:
        keep, names = said or default_keep(node.store.traits), node.do(job_names())
        if options.job is not None:
            refuse_unknown(options.job, names)
            names = [options.job]
        found = {name: keys for name in names if (keys := _excess(node, name, keep))}
        gone = dict.fromkeys(found, 0) if options.dry_run else _purge(node, found, keep)
        swept = 0 if options.dry_run or options.job else _sweep(node)
    jobs = [{"job": name, "found": len(found[name]), "purged": gone[name]} for name in found]
    if options.dry_run:
        lines = [f"{name}: {len(keys):,} would be purged" for name, keys in found.items()]
    else:
        lines = [f"{name}: {count:,} purged" for name, count in gone.items()]
    lines += [f"{swept:,} old records of keys, locks and processes deleted"] if swept else []
    show(options, {"jobs": jobs, "swept": swept}, "\n".join(lines) or "nothing to purge")


def _keep(given: list[str]) -> Keep | None:
    if not given:
        return None
    by_outcome: dict[str, Kept] = {}
    for text in given:
        outcome, equals, kept = text.partition("=")
        if not equals and len(given) > 1:
            raise BadInput(f"--keep {text}: name the outcome, as in --keep succeeded={text}")
        if not equals:
            return read_keep(text)
        by_outcome[outcome] = kept
    return read_keep(by_outcome)


def _excess(node: Node, name: str, keep: Keep) -> list[str]:
    return [cell.key for cell in node.do(node.ledger.jobs.excess(name, keep))]


def _purge(node: Node, found: Mapping[str, Sequence[str]], keep: Keep) -> dict[str, int]:
    """How many went of each job, by this process; others may purge the same. What comes to be too much meanwhile is not
    waited for: of a job that is due every second there is always one more."""
    gone, left = dict.fromkeys(found, 0), set(found)
    whole = sum(map(len, found.values()))
    while left:
        for name in sorted(left):
            gone[name] += node.do(node.ledger.jobs.purge(name, keep))
        left = {name for name in left if not {*found[name]}.isdisjoint(_excess(node, name, keep))}
        bar("purging", min(sum(gone.values()), whole) if left else whole, whole)
        time.sleep(PURGE_POLL if left else 0)
    return gone


def _sweep(node: Node) -> int:
    """Delete cells that are no longer needed, and return how many this process deleted."""
    gone = 0
    while node.do(node.ledger.jobs.left_behind()):
        swept = node.do(node.ledger.jobs.sweep())
        gone += swept
        time.sleep(0 if swept else PURGE_POLL)
    return gone

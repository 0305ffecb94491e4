"""cronce deploy crontab: install lines without duplicates, however often it is repeated, and guard them.

`integrations.crontab` edits the text; `host_settings` reads and writes crontabs.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from cronce.cli import JSON_ARGUMENT, add_actions, add_arguments, host_settings
from cronce.cli.terminal import ColouredText, ask, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError
from cronce.integrations import crontab as text
from cronce.model import check_name
from cronce.schedule import Cron
from cronce.schedule.zone import find_zone
from cronce.stores import mask_all
from cronce.stores.default import URL_VARIABLE
from cronce.telling.words import iso, safe

CRONTAB_ACTIONS: Final = {
    "install": "write lines into a marked block of the crontab; doing it again changes nothing",
    "remove": "remove the block that `install` wrote",
    "list": "list what the crontab starts: schedule, zone, next time, guarded or not",
    "dedupe": "remove lines that start the same command on the same schedule as another line",
    "wrap": "wrap the lines in `cronce exec`, so that each slot runs once across machines",
}
CRONTAB_EPILOG = """
examples:
  cronce deploy crontab install deploy/crontab --name shop
  cronce deploy crontab install '*/15 * * * * /opt/shop/sync.sh' --wrap
  cronce deploy crontab wrap --dry-run
  cronce deploy crontab list --file /etc/cron.d/shop --json
"""


UNDO: Final = (
    "to undo `wrap`, restore the copy it kept (~/.local/state/cronce/crontab.*) with `crontab FILE`, or delete"
    " `cronce exec … --` from each line"
)


def add_crontab_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(meant={"unwrap": UNDO})
    for action, one in add_actions(parser, CRONTAB_ACTIONS).items():
        _add_options(one, action)


def _add_options(one: argparse.ArgumentParser, action: str) -> None:
    if action == "install":
        source = {"source: FILE|LINE": "a file with crontab lines (- is stdin), or one such line"}
        add_arguments(one, {**source, "--wrap": "wrap its lines in `cronce exec`"})
    if action in ("install", "remove"):
        add_arguments(one, {"--name BLOCK": ("default", "the name of the block: one for each application")})
    if action in ("install", "wrap", "list"):
        add_arguments(one, {"--tz ZONE": "the time zone cron uses (default: the machine's, or CRON_TZ)"})
    file = "a file like /etc/cron.d/shop, with a user in each line"
    add_arguments(
        one.add_mutually_exclusive_group(), {"--user USER": "whose crontab (default: yours)", "--file PATH": file}
    )
    add_arguments(
        one, JSON_ARGUMENT if action == "list" else {"--dry-run": "show what would change, and change nothing"}
    )
    if action in ("dedupe", "wrap"):
        add_arguments(one, {"--yes": "do not ask"})


def run_crontab(options: argparse.Namespace) -> None:
    host_settings.refuse_windows("crontab")
    place = host_settings.SystemCrontab(options.file) if options.file else host_settings.UserCrontab(options.user)
    if options.file and options.action in ("list", "dedupe", "wrap") and not Path(options.file).exists():
        raise BadInput(f"there is no file {options.file}")
    actions = {"install": _install, "remove": _remove, "list": _list, "dedupe": _dedupe, "wrap": _wrap}
    actions[options.action](options, place)


# --- changing ---------------------------------------------------------------------------------------------------------


def _apply(
    options: argparse.Namespace, place: host_settings.Crontab, edit: Callable[[str], str], notices: Sequence[str] = ()
) -> None:
    """Show what changes, ask where that is due, and write it. Nothing is locked while a person thinks. The `notices`
    stand right before the question, where a long difference does not push them out of sight."""
    before = place.read()
    after = edit(before)
    if before != after:
        print(_diff(before, after, str(place)))
    for line in notices:
        print(safe(line))
    if before == after:
        print(f"{place}: nothing to change")
        return
    if options.dry_run:
        return
    asked = "yes" in options and not options.yes
    if asked and not _agreed(place):
        raise CronceError("nothing was changed")
    with place.lock():
        now = place.read()
        if asked and now != before:
            raise CronceError(f"{place} was changed in the meantime; check it again")
        after = edit(now)
        copy = f"; the old version is kept in {host_settings.keep(now)}" if "yes" in options and after != now else ""
        if after != now:
            place.write(after)
    print(f"{place}: written{copy}")


def _diff(before: str, after: str, name: str) -> str:
    old, new = (side.removesuffix("\n").split("\n") if side else [] for side in (before, after))
    return "\n".join(safe(mask_all(line)) for line in unified_diff(old, new, name, name, lineterm=""))


def _agreed(place: host_settings.Crontab) -> bool:
    if not sys.stdin.isatty():
        raise BadInput("there is no terminal to ask on; add --yes to write this, or --dry-run to only see it")
    return ask(f"write this to {place}? [y/N] ") in ("y", "yes")


def _install(options: argparse.Namespace, place: host_settings.Crontab) -> None:
    name, body, system = check_name(options.name), _body(options.source), place.system
    text.check(body, system=system)
    _refuse_strangers(body, place)
    if options.file and Path(options.file).parent.name == "cron.d" and "." in Path(options.file).name:
        print(f"Debian's cron ignores {options.file}: there is a dot in its name")
    before = place.read()
    above = text.above(before, name)
    if above:
        print(f"settings above the block apply to it, too: {', '.join(f'{word}=…' for word in above)}")
    if options.wrap:
        beside = [entry for entry in text.entries(before, system=system) if entry.block != name]
        body, left = text.wrap(body, _host(options), system=system, settings=above, beside=beside)
        _tell(left)
    elif any(not entry.guard and entry.schedule != "@reboot" for entry in text.entries(body, system=system)):
        print("some lines are not guarded; --wrap wraps them in `cronce exec`")
    lines = text.entries(body, system=system, settings=above)
    _apply(options, place, lambda before: text.install(before, name, body), _places(lines, options))


def _remove(options: argparse.Namespace, place: host_settings.Crontab) -> None:
    name, known = check_name(options.name), text.blocks(place.read())
    if name not in known:
        print(f"there is no block {name}; known: {', '.join(known) or 'none'}")
        if any(entry.guard == "cronce" for entry in text.entries(place.read(), system=place.system)):
            print(UNDO)
    _apply(options, place, lambda before: text.remove(before, name))


def _dedupe(options: argparse.Namespace, place: host_settings.Crontab) -> None:
    _apply(options, place, lambda before: text.dedupe(before, system=place.system))


def _refuse_strangers(body: str, place: host_settings.Crontab) -> None:
    """A user that this machine does not have is, nearly always, the first word of a command without one."""
    if not place.system:
        return
    for entry in text.entries(body, system=True):
        if host_settings.home_of(entry.user) is None:
            raise BadInput(
                f"line {entry.number}: {mask_all(entry.user)[:60]!r} is not a user of this machine; in a --file each"
                " line names a user (for a crontab without users: `cronce deploy crontab install FILE --wrap`)"
            )


def _body(source: str) -> str:
    """A file's text, stdin's, or the line itself. A crontab line has blanks in it; a misspelt path rarely has."""
    if source == "-":
        return sys.stdin.read()
    path = Path(source)
    try:
        if len(source) < 1_000 and path.is_file():
            return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise BadInput(f"{source} cannot be read ({error.strerror})") from None
    if len(source.split()) == 1:
        raise BadInput(f"{source} is neither a file nor a crontab line")
    return source


def _wrap(options: argparse.Namespace, place: host_settings.Crontab) -> None:
    host = _host(options)

    def wrapped(before: str) -> tuple[str, list[text.LineLeftAlone]]:
        _refuse_strangers(before, place)
        return text.wrap(before, host, system=place.system)

    after, left = wrapped(place.read())
    _tell(left)
    lines = text.entries(after, system=place.system)
    _apply(options, place, lambda before: wrapped(before)[0], _places(lines, options))


def _host(options: argparse.Namespace) -> text.CronHost:
    zone = host_settings.machine_zone() if options.tz is None else options.tz
    find_zone(zone)
    cronce, user = " ".join(map(text.word, host_settings.program())), _whose(options)
    return text.CronHost(
        cronce, zone, user, host_settings.follows_cron_tz(), told=options.tz is not None,
        refusal=lambda entry: host_settings.refusal(entry.user or user, entry.settings),
    )  # fmt: skip


def _whose(options: argparse.Namespace) -> str:
    return options.user or host_settings.this_user()


def _tell(left: Sequence[text.LineLeftAlone]) -> None:
    for one in left:
        if one.entry.guard != "cronce":
            print(f"line {one.entry.number} stays as it is: {safe(one.why)}")


def _places(lines: Sequence[text.CrontabEntry], options: argparse.Namespace) -> list[str]:
    """Where guarded lines keep their slots, each place once; lines that name a store themselves are left out."""
    says = re.compile(rf"\s--store[\s=]|\b{URL_VARIABLE}=")
    silent = [entry for entry in lines if entry.guard == "cronce" and not says.search(entry.command)]
    places = (host_settings.place_of_slots(entry.user or _whose(options), entry.settings) for entry in silent)
    return list(dict.fromkeys(places))


# --- looking ----------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace, place: host_settings.Crontab) -> None:
    host = _host(options)
    lines = text.entries(place.read(), system=place.system)
    rows = [_row(entry, host) for entry in lines]
    if options.json:
        print(json.dumps({"lines": rows}, ensure_ascii=False))
    elif rows:
        headers = ["line", "schedule", "zone", "next", "user", "guard", "command"]
        print(table(headers, [[_cell(row, header) for header in headers] for row in rows], screen()))
        for entry in lines:
            if isinstance(why := _cron(entry, host), str):
                print(safe(f"line {entry.number} has no next time: {why}"))
        for line in _places(lines, options):
            print(safe(line))
    else:
        print(f"{place} starts nothing")


def _cron(entry: text.CrontabEntry, host: text.CronHost) -> Cron | str:
    zone = text.zone_of(entry, host)
    return text.cron_of(entry, zone) if zone else "the zone is not known"


def _row(entry: text.CrontabEntry, host: text.CronHost) -> dict[str, object]:
    cron = _cron(entry, host)
    upcoming = cron.next(SystemClock().wall()) if isinstance(cron, Cron) else None
    return {
        "line": entry.number,
        "schedule": entry.schedule,
        "zone": text.zone_of(entry, host),
        "next": iso(upcoming),
        "user": entry.user or host.user,
        "guarded": entry.guard == "cronce",
        "guard": entry.guard or None,
        "block": entry.block or None,
        "command": mask_all(entry.command),
    }


def _cell(row: dict[str, object], header: str) -> str | ColouredText:
    value = row[header]
    if header == "guard":
        return ColouredText(str(value or "none"), "good" if value == "cronce" else "bad" if value is None else "odd")
    return "—" if value is None else str(value)

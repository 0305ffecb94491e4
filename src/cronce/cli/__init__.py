"""The command line: one small function per verb, in a file that is imported only when the verb is called.

`cronce exec` starts every minute under cron, so this file imports nothing heavier than argparse, and only the called
verb gets a parser. The file of a verb such as `pause` has `add_pause_arguments(parser)` and `run_pause(options)`, which
returns the exit code, unless that is always 0; and for its help text, where there is more to say, a `PAUSE_DESCRIPTION`
and a `PAUSE_EPILOG`. Verbs about one thing share a file (`FILES`).

Exit codes: 0 it is as it should be, 1 it is not (the text says what), 2 the call makes no sense, 75 the store
cannot be reached, 78 the store needs a person.
"""

import argparse
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cronce import __version__
from cronce.errors import BadInput, CronceError, StoreUnavailable, StoreUnusable, tell

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

GROUPS: Final = {
    "try": {
        "demo": "three processes, one killed in mid-run, with and without the guard, and the verdict",
    },
    "run": {
        "run": "run the jobs of an application, in as many processes as you like",
        "exec": "run a command for its slot, once: the wrapper for crontabs",
        "beat": "leave a sign of life of a scheduler that is not ours",
    },
    "look": {
        "jobs": "the jobs: their schedules, next slots and last runs",
        "next": "when a schedule fires next",
        "explain": "a schedule in plain words, and what it does when clocks change",
        "runs": "the runs, newest first",
        "effects": "the effects that are in doubt, and those in progress",
        "locks": "who holds which lock, and who held it before",
        "leaders": "who leads which group, in which term, and who led it before",
        "holders": "the schedulers that are alive",
        "observed": "what ran twice where it was only observed, and what that cost",
        "watch": "watch the store, and tell of what is wrong",
        "ui": "show it all on a page: overview, timeline, jobs, runs, alerts; and act there",
        "why": "why a slot ran, runs or did not run: every attempt, takeover and refusal",
    },
    "act": {
        "pause": "grant no slot of a job, or of any, until it is resumed",
        "resume": "grant slots again",
        "trigger": "run a job now, with a key and a payload of its own",
        "rerun": "run a closed slot once more",
        "cancel": "stop a run, or close what waits to be run",
        "backfill": "run the slots of a stretch of time that never succeeded",
        "resolve": "say that a slot or an effect in doubt is done, or to be retried",
        "drain": "let schedulers claim nothing more, while they live",
        "add": "keep a job in the store, for all processes that allow it",
        "edit": "change a job that lives in the store",
        "remove": "take a job out of the store",
        "purge": "delete runs that are over and are not kept",
        "store": "begin a store on purpose, adopt a copy, print its SQL, or set its clock right",
    },
    "check": {
        "audit": "find where a scheduled job can run twice, be lost or overlap: in a repository",
        "doctor": "check the store and this machine, and prove that a slot is claimed once",
        "torture": "kill, stop and cut off processes on your own store, and count broken promises",
        "logs": "find jobs in logs that started twice, overlapped or never ended",
        "dupes": "find rows of a table that stand there twice",
        "simulate": "play the protocol under crashes, pauses, lost replies and bad clocks, and count broken promises",
    },
    "deploy": {
        "k8s": "print Kubernetes manifests: a CronJob, a Deployment of schedulers, least RBAC",
        "choose": "which store, which trigger and which guard suit you, and why",
        "crontab": "install, list, dedupe and guard the lines of a crontab",
        "systemd": "print a service and a timer that are safe on many hosts",
        "completion": "print what makes bash, zsh or fish complete these commands",
    },
}
COMMANDS: Final = ("exec", "add", "edit", "systemd", "k8s")
"""Behind two dashes they are given a command."""
CODES: Final = ((BadInput, 2), (StoreUnavailable, 75), (StoreUnusable, 78))
VERBS: Final = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}
FILES: Final = {
    **dict.fromkeys(("next", "explain"), "schedules"),
    **dict.fromkeys(("jobs", "why", "observed", "holders", "beat", "locks", "leaders"), "runs"),
    **dict.fromkeys(("pause", "resume", "drain", "trigger", "rerun", "cancel", "backfill"), "requests"),
    **dict.fromkeys(("add", "edit", "remove"), "stored"),
    **dict.fromkeys(("doctor", "purge"), "store"),
    **dict.fromkeys(("logs", "dupes"), "evidence"),
    **dict.fromkeys(("k8s", "systemd"), "deploy"),
    "resolve": "effects",
    "simulate": "torture",
}
"""The verbs that are in a file of another name; any other has a file of its own name."""


def console() -> NoReturn:
    """The process behind the command. `exec` is over when it returns: its store is closed and its children are gone. So
    it neither collects garbage while it starts nor takes the interpreter apart at its end, which together would be a
    sixth of its time under cron."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no … is no reason to say nothing
    if sys.argv[1:2] != ["exec"]:
        try:
            sys.exit(main())
        finally:
            let_go()
            # an interrupt within a text (a namedtuple is made of one) is how Python ends, though it was caught
            eval("0")  # noqa: S307  until there is another text (`exec` is a verb of ours)
    gc.disable()
    try:
        code = main()
    except SystemExit as end:  # by the parser: a help text, or what makes no sense
        code = end.code if isinstance(end.code, int) else 0
    let_go()
    os._exit(code)


def say(verb: str, text: str) -> None:
    """On stderr. Nobody need take it: a full disk, or a reader who has gone, is no reason to leave a run undone."""
    tell(f"cronce {verb}: {text}" if verb else f"cronce: {text}")


def let_go() -> None:
    """What was not taken is none of what ran: Python would try once more, and exit with 120."""
    for name in ("stdout", "stderr"):
        try:
            if (stream := getattr(sys, name)) is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, None)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    verb = given[0] if given else ""
    if verb in VERBS:
        return _call(verb, given[1:])
    if verb == "help":
        return main([*given[1:2], "--help"])
    if verb and not verb.startswith("-"):
        tell(f"cronce: {_unknown(verb)}")
        return 2
    return _call("", given)


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb; its file adds the arguments."""
    text = VERBS[verb]
    parser = Parser(
        prog=f"cronce {verb}",
        description=_named(verb, f"{verb.upper()}_DESCRIPTION") or f"{text[0].upper()}{text[1:]}.",
        epilog=_named(verb, f"{verb.upper()}_EPILOG"),
        formatter_class=_formatter,
        allow_abbrev=False,  # what is abbreviated today means something else with the next option
    )
    _named(verb, f"add_{verb}_arguments")(parser)
    parser.set_defaults(verb=verb)
    return parser


def add_actions(parser: argparse.ArgumentParser, texts: Mapping[str, str]) -> dict[str, argparse.ArgumentParser]:
    """What a verb can do, each with a parser of its own: `cronce store init`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    return {
        name: actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        for name, text in texts.items()
    }


@contextmanager
def on_signals(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """In here the handler is called for these signals; after it whatever was before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def refuse_outside(option: str, number: int, most: int, least: int = 1) -> None:
    if not least <= number <= most:
        raise BadInput(f"{option} is {least} to {most:,}, and this is {number}")


class Parser(argparse.ArgumentParser):
    """What it cannot make sense of may be a URL with a password."""

    def error(self, message: str) -> NoReturn:
        hint = self.get_default("hint") if message.startswith("unrecognized") else None
        told = _fit(f"{message}; {hint}" if hint else message)
        tell(f"{self.format_usage()}{self.prog}: error: {told}")
        sys.exit(2)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """After a help text or the version. A full disk is noticed here, not in the interpreter's own last flush."""
        if message:
            tell(message.rstrip("\n"))
        _flush()
        sys.exit(status)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Later Pythons than 3.11.2 ignore an OSError here. It is let through, so that a full disk is told."""
        if message and file is not None:
            file.write(message)


def _flush() -> None:
    if sys.stdout is not None:  # a caller may have closed it
        sys.stdout.flush()


def _fit(message: str) -> str:
    from cronce.stores import mask_all  # noqa: PLC0415  only who erred pays for it

    return mask_all(message)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as the terminal. argparse would find that out by itself, by importing compression and all."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=max(width, 40) - 2)


def _call(verb: str, given: Sequence[str]) -> int:
    try:
        code = _run(verb, given) if verb else _overview(given)
        _flush()
        return code
    except CronceError as error:
        say(verb, _fit(str(error)))
        return next((code for kind, code in CODES if isinstance(error, kind)), 1)
    except KeyboardInterrupt:
        say(verb, "interrupted")
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        say(verb, os.strerror(errno.ENOSPC))
        let_go()
        return 1


def _run(verb: str, given: Sequence[str]) -> int:
    """The words behind the first two dashes are a command's, of which no word is ours."""
    place = given.index("--") if verb in COMMANDS and "--" in given else len(given)
    options = parser_of(verb).parse_args(given[:place])
    options.command = given[place + 1 :]
    code: int | None = _named(verb, f"run_{verb}")(options)
    return code or 0


def _named(verb: str, name: str) -> Any:
    """What a verb's file has by this name, if anything."""
    return getattr(import_module(f"cronce.cli.{FILES.get(verb, verb)}"), name, None)


def _overview(given: Sequence[str]) -> int:
    """`cronce --help`; called with nothing at all, the same text, and the code of a call that makes no sense."""
    parser = Parser(
        prog="cronce",
        usage="cronce VERB [options]",
        description=f"cron, once: each slot of a schedule runs once across any number of machines.\n\n{_listed()}",
        epilog="`cronce VERB --help` explains one.",
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="version", version=f"cronce {__version__}")
    parser.parse_args(given)
    parser.print_help()
    return 2


def _listed() -> str:
    lines = [[group, *(f"  {verb:<12}{text}" for verb, text in verbs.items())] for group, verbs in GROUPS.items()]
    return "\n".join(line for group in lines for line in group)


_MEANT: Final = {"start": "run", "serve": "run", "worker": "run", "list": "jobs"}
"""What others call it."""


def _unknown(verb: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    close = [_MEANT[verb]] if verb in _MEANT else get_close_matches(verb.lower(), VERBS, n=1)
    remedy = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no verb {verb[:40]!r}; {remedy}`cronce --help` lists them"

"""The command line: one small function per verb, in a file that is imported only when the verb is called.

`cronce exec` starts every minute under cron, so this file imports nothing heavier than argparse, and only the called
verb gets a parser. `GROUPS` and `UNDER` are the table of verbs; `verb_of` alone knows old spellings.

The file of a verb such as `run` has `run_run(options)`, which returns the exit code, unless that is always 0. Its
arguments are a table, `RUN_ARGUMENTS`; `add_run_arguments(parser)` adds what a table cannot express. For its help text,
where there is more to say, it has a `RUN_DESCRIPTION` and a `RUN_EPILOG`. Verbs about one thing share a file
(`FILE_OF_VERB`).

Exit codes: 0 it is as it should be, 1 it is not (the text says what), 2 the call makes no sense, 75 the store
cannot be reached, 78 the store cannot be used until somebody mends it.
"""

import argparse
import errno
import gc
import io
import os
import re
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
        "demo": "three processes, one of them killed during a run, with and without cronce, and the result",
    },
    "run": {
        "run": "run the jobs of an application, in as many processes as you like",
        "exec": "run a command once per slot: the wrapper for crontab lines",
        "beat": "record a heartbeat of another scheduler, so that `watch` notices when it stops",
    },
    "look": {
        "status": "one screen: the store, who is alive, what runs, what is next, what is wrong",
        "jobs": "the jobs with their next slot and last run; add, edit and remove jobs kept in the store",
        "show": "one job: its schedule, what runs, its last runs",
        "runs": "the latest runs (`cronce history` is the same)",
        "why": "why a slot ran, is running or did not run, with every attempt, takeover and refusal",
        "explain": "a schedule in plain words: when it fires next, and what it does when clocks change",
        "watch": "watch the store until stopped (--once: check and exit)",
        "ui": "the web page: overview, timeline, jobs, runs, alerts; and the buttons to act",
    },
    "act": {
        "pause": "pause a job, or all jobs, until resumed; or stop a scheduler from taking new work",
        "resume": "resume a job, all jobs or a scheduler",
        "trigger": "run a job now, with a payload if you like",
        "rerun": "run a closed slot again, or backfill the slots of a time range",
        "cancel": "stop a run, or drop one that has not started",
        "resolve": "list what is in doubt; mark a slot or an effect as done, or retry it",
    },
    "check": {
        "doctor": "check the store and this machine, and prove that a slot is claimed once",
        "store": "initialise a store, accept a restored copy, print its SQL, confirm its clock, purge old runs",
        "audit": "find where a scheduled job can run twice, be lost or overlap: in code, logs and tables",
        "torture": "kill, pause and disconnect processes on your own store, and count broken promises",
    },
    "deploy": {
        "deploy": "choose a store; write crontabs, systemd units, Kubernetes manifests, shell completion",
    },
}
"""What `cronce --help` lists."""
UNDER: Final = {
    "status": {
        "holders": "the schedulers that are alive",
        "locks": "who holds which lock, and who held it before",
        "leaders": "who leads which group, in which term, and who led it before",
        "observed": "duplicate runs of jobs that are only observed, and what they cost",
        "effects": "the effects that are in doubt, and those in progress",
    },
    "jobs": {
        "add": "add a job to the store, for all processes that allow stored jobs",
        "edit": "change a job in the store",
        "remove": "delete a job from the store",
    },
    "explain": {"next": "when a schedule fires next"},
    "store": {"purge": "delete finished runs that are no longer kept"},
    "audit": {
        "logs": "find jobs that started twice, overlapped or never ended",
        "dupes": "find duplicate rows in a table",
    },
    "torture": {
        "simulate": "run the protocol under crashes, pauses, lost replies and bad clocks, and count broken promises",
    },
    "deploy": {
        "choose": "which store, which trigger and which guard suit you, and why",
        "crontab": "install, list, dedupe and guard the lines of a crontab",
        "systemd": "print a service and a timer that are safe on many hosts",
        "k8s": "print Kubernetes manifests: a CronJob, a Deployment of schedulers, minimal RBAC",
        "completion": "print the script that lets bash, zsh or fish complete these commands",
    },
}
"""`cronce jobs add`: what a verb can do besides. Each was a verb by itself once, and still is: `cronce add`."""
ALIASES: Final = {"history": "runs", "backfill": "rerun"}
"""Other spellings of a verb."""
GIVEN_A_COMMAND: Final = ("exec", "add", "edit", "systemd", "k8s", "completion")
"""Behind two dashes they are given a command."""
ABOUT_A_STORE: Final = (
    "status", "jobs", "show", "runs", "why", "watch", "pause", "resume", "trigger", "rerun", "cancel", "resolve",
)  # fmt: skip
"""The commands that messages tell people to run, and that read or change one store."""
_called: Final = argparse.Namespace(store=None)
"""The store that this command line names."""
CODES: Final = ((BadInput, 2), (StoreUnavailable, 75), (StoreUnusable, 78))
HELP_OF_VERB: Final = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}
VERBS: Final = {
    **{verb: text for verbs in UNDER.values() for verb, text in verbs.items()},
    "drain": "stop schedulers from taking new work: the old name of `cronce pause --scheduler`",
    **HELP_OF_VERB,
}
"""All that have a parser, whether they are listed or not."""
FILE_OF_VERB: Final = {
    **dict.fromkeys(("next", "explain"), "schedules"),
    **dict.fromkeys(("jobs", "show", "why", "beat", "add", "edit", "remove"), "runs"),
    **dict.fromkeys(("holders", "locks", "leaders", "observed"), "status"),
    **dict.fromkeys(("pause", "resume", "drain", "trigger", "rerun", "cancel"), "operations"),
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
            stream.reconfigure(errors="replace")  # a terminal without the character … still gets the text
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
    """Print to stderr. A full disk, or a reader that is gone, is no reason to leave a run undone."""
    tell(f"cronce {verb}: {pasteable(text)}" if verb else f"cronce: {pasteable(text)}")


def pasteable(text: str) -> str:
    """The text, with `--store` in each command to paste, if this command was given one. Those are in backticks, or on a
    line of their own; what a job printed is left as it is."""
    if not _called.store:
        return text
    from shlex import quote  # noqa: PLC0415  most name no store

    from cronce.stores import mask  # noqa: PLC0415

    longer = [f"{verb} {under}" for verb in ABOUT_A_STORE for under in UNDER.get(verb, ())]
    verbs = "|".join((*longer, *ABOUT_A_STORE, "run app:cron", "doctor", "store (?:init|adopt|sql|clock)(?=`)"))
    command = rf"(?:(?<=`)|(?<=^  ))cronce (?:{verbs})(?=[ `]|$)(?! --store)"
    shown = mask(_called.store)
    if shown == _called.store:
        return re.sub(command, lambda found: f"{found[0]} --store {quote(shown)}", text, flags=re.M)
    if not re.search(command, text, flags=re.M):
        return text
    line = text.rstrip("\n")  # a password is not printed
    again = "\nRun these commands with the same --store." if "\n" in line else ". Run it with the same --store"
    return line.rstrip(".") + again + text[len(line) :]


def let_go() -> None:
    """Drop output that cannot be written: Python would try once more, and exit with 120."""
    for name in ("stdout", "stderr"):
        try:
            if (stream := getattr(sys, name)) is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, None)


def main(arguments: Sequence[str] | None = None) -> int:
    given, _called.store = list(sys.argv[1:] if arguments is None else arguments), None
    if given[:1] == ["help"]:
        given = [*given[1:3], "--help"]
    verb, spelled = verb_of(given)
    if not verb and given and not given[0].startswith("-"):
        tell(f"cronce: {_unknown(given[0])}")
        return 2
    return _call(verb, given[len(spelled.split()) :], spelled)


def verb_of(words: Sequence[str]) -> tuple[str, str]:
    """The verb that serves these words, and how much of them spells it: `jobs add …` is served by `add`, as `add` is.
    Both are empty where no verb is called that."""
    first, second = [*words[:2], "", ""][:2]
    if second in UNDER.get(first, ()):
        return second, f"{first} {second}"
    verb = first if first in VERBS else ALIASES.get(first, "")
    return verb, first if verb else ""


def parser_of(verb: str, spelled: str = "") -> argparse.ArgumentParser:
    """The parser of a verb; its file adds the arguments."""
    text = VERBS[verb]
    besides = UNDER.get(verb, {})
    parser = Parser(
        prog=f"cronce {spelled or verb}",
        description=_named(verb, f"{verb.upper()}_DESCRIPTION") or f"{text[0].upper()}{text[1:]}.",
        epilog=_besides(verb, besides) + (_named(verb, f"{verb.upper()}_EPILOG") or ""),
        formatter_class=_formatter,
        allow_abbrev=False,  # what is abbreviated today means something else with the next option
    )
    table, add = _named(verb, f"{verb.upper()}_ARGUMENTS"), _named(verb, f"add_{verb}_arguments")
    add_arguments(parser, table or {})
    if add:
        add(parser)
    elif not table:
        parser.usage = f"cronce {verb} {{{','.join(besides)}}} …"
    parser.set_defaults(verb=verb)
    return parser


def _besides(verb: str, texts: Mapping[str, str]) -> str:
    width = len(verb) + max(map(len, texts), default=0) + 2
    return "".join(f"\n{_indented(f'{verb} {name}', text, width)}" for name, text in texts.items()) + "\n" * bool(texts)


def _indented(name: str, text: str, width: int = 10) -> str:
    return f"  {name:<{width}} {text}"


def add_actions(parser: argparse.ArgumentParser, texts: Mapping[str, str]) -> dict[str, argparse.ArgumentParser]:
    """What a verb can do, each with a parser of its own: `cronce store init`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    return {
        name: actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        for name, text in texts.items()
    }


Arguments = Mapping[str, str | tuple[int | str | list[str], str]]


def add_arguments(to: argparse._ActionsContainer, arguments: Arguments, **how: Any) -> None:
    """Each as a help text shows it. `JOB` has to be given, `[JOB]` may be left out, of `JOB...` there may be several.
    `--json` is a switch, `--lease SPAN` takes a value, `--on-lost {skip,rerun}` one of these words; N is a number.
    `start: --from WHEN` is put into `options.start`. A text may have a default before it; of an option whose default is
    a list several may be given."""
    for spelled, said in arguments.items():
        default, text = said if isinstance(said, tuple) else (None, said)
        dest, _, shown = spelled.rpartition(": ")
        *flags, last = re.split(",? ", shown)
        if last.startswith("-"):
            to.add_argument(*flags, last, action="store_true", help=text)
            continue
        word = last if flags else last.strip("[.]")
        more: dict[str, Any] = {"default": default, "metavar": word, "help": text, **how}
        if word.startswith("{"):
            more |= {"choices": word.strip("{}").split(","), "metavar": None}
        if word == "N":
            more["type"] = int
        if isinstance(default, list):
            more["action"] = "append"
        if not flags:
            more["nargs"] = {"[]": "?", "...": "+", "[...]": "*"}.get(last.replace(word, ""))
        elif dest:
            more["dest"] = dest
        to.add_argument(*(flags or [dest or word.lower()]), **more)


JSON_ARGUMENT: Final = {"--json": "print one JSON document"}


@contextmanager
def on_signals(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """In this block the handler is called for these signals; afterwards the earlier handlers are back."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def refuse_outside(option: str, number: int, most: int, least: int = 1) -> None:
    if not least <= number <= most:
        raise BadInput(f"{option} must be from {least} to {most:,}, not {number}")


class Parser(argparse.ArgumentParser):
    """Its messages mask passwords: a word that it cannot parse may be a URL."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, left = self.parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}{self._remedy(options, left)}")
        return options

    def _remedy(self, options: argparse.Namespace, left: Sequence[str]) -> str:
        """A misspelt option, else a schedule that the shell has split, else what the verb can do besides, else the hint
        of the verb."""
        for word in left:
            if word.startswith("--") and (close := _closest(word.partition("=")[0], self._option_string_actions)):
                return f"; did you mean {close}?"
        schedule = getattr(options, "schedule", None)
        if schedule and " " not in schedule and not schedule.startswith("@") and not left[0].startswith("-"):
            where = "--schedule " if "--schedule" in self._option_string_actions else ""
            return f"; put the schedule in quotes, or the shell splits it: {where}'*/15 * * * *'"
        verb, hint = self.get_default("verb"), self.get_default("hint")
        if close := "" if left[0].startswith("-") else _closest(left[0], UNDER.get(verb, ())):
            return f"; did you mean `cronce {verb} {close}`?"
        return f"; {hint}" if hint else ""

    def error(self, message: str) -> NoReturn:
        tell(f"{self.format_usage()}{self.prog}: error: {_fit(self._plain(message))}")
        sys.exit(2)

    def _plain(self, message: str) -> str:
        """For a word that is not among the choices: the choices, and the nearest of them."""
        before, found, after = message.partition("invalid choice: ")
        word, _, choices = after.partition(" (choose from ")
        if not found:
            return message
        besides = UNDER.get(self.get_default("verb"), ()) if before == "argument ACTION: " else ()
        word, known = word.strip("'"), [*choices.removesuffix(")").replace("'", "").split(", "), *besides]
        meant, close = self.get_default("meant") or {}, _closest(word, known)
        remedy = f"; {meant[word]}" if word in meant else f"; did you mean {close}?" if close else ""
        return f"{before}{word[:60]!r} is not one of {', '.join(known)}{remedy}"

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """After a help text or the version. Flush here, so that a full disk is reported as an error."""
        if message:
            tell(message.rstrip("\n"))
        _flush()
        sys.exit(status)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Later Pythons than 3.11.2 ignore an OSError here. It is let through, so that a full disk is reported."""
        if message and file is not None:
            file.write(message)


def _flush() -> None:
    if sys.stdout is not None:  # a caller may have closed it
        sys.stdout.flush()


def _closest(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only needed for a misspelt word

    return next(iter(get_close_matches(word.lower(), list(known), n=1)), "")


def _fit(message: str) -> str:
    from cronce.stores import mask_all  # noqa: PLC0415  only needed for an error

    return mask_all(message)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as the terminal. argparse would find that out by itself, by importing compression and all."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=max(width, 40) - 2)


def _call(verb: str, given: Sequence[str], spelled: str) -> int:
    try:
        code = _run(verb, given, spelled) if verb else _overview(given)
        _flush()
        return code
    except CronceError as error:
        further = "; `cronce doctor` checks the store and says what to do" if _is_away(error, verb) else ""
        say(spelled, f"{_fit(str(error))}{further}")
        for note in getattr(error, "__notes__", ()):
            say(spelled, _fit(note))
        return next((code for kind, code in CODES if isinstance(error, kind)), 1)
    except KeyboardInterrupt:
        say(spelled, "interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        say(spelled, os.strerror(errno.ENOSPC))
        let_go()
        return 1


def _is_away(error: CronceError, verb: str) -> bool:
    return isinstance(error, StoreUnavailable) and verb != "doctor" and "cronce doctor" not in str(error)


def _run(verb: str, given: Sequence[str], spelled: str) -> int:
    """The words behind the first two dashes are a command's, of which no word is ours."""
    place = given.index("--") if verb in GIVEN_A_COMMAND and "--" in given else len(given)
    parser = parser_of(verb, spelled)
    options = parser.parse_args(given[:place])
    options.command = given[place + 1 :]
    _called.store = getattr(options, "store", None) or getattr(options, "url", None)
    run = _named(verb, f"run_{verb}")
    if run is None:  # it only has others under it
        parser.print_help()
        return 2
    code: int | None = run(options)
    return code or 0


def _named(verb: str, name: str) -> Any:
    """The object of this name in the verb's file, if there is one."""
    return getattr(import_module(f"cronce.cli.{FILE_OF_VERB.get(verb, verb)}"), name, None)


def _overview(given: Sequence[str]) -> int:
    """`cronce --help`; called with nothing at all, the same text, and the code of a call that makes no sense."""
    parser = Parser(
        prog="cronce",
        usage="cronce COMMAND [options]",
        description=f"cron, once: each slot of a schedule runs once across any number of machines.\n\n{_listed()}",
        epilog="`cronce COMMAND --help` explains a command.",
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="version", version=f"cronce {__version__}")
    parser.parse_args(given)
    parser.print_help()
    return 2


def _listed() -> str:
    lines = [[group, *(_indented(verb, text) for verb, text in verbs.items())] for group, verbs in GROUPS.items()]
    return "\n".join(line for group in lines for line in group)


_MEANT: Final = {
    **dict.fromkeys(("start", "serve", "worker"), "run"),
    **dict.fromkeys(("ack", "acknowledge", "snooze"), "watch --acknowledge"),
    "list": "jobs",
    "ps": "status",
    "log": "runs",
}
"""Names from other tools, and ours for the same."""


def _unknown(verb: str) -> str:
    close = _MEANT.get(verb) or _closest(verb, [*HELP_OF_VERB, *VERBS, *ALIASES])
    remedy = f"did you mean {close!r}? " if close else ""
    return f"there is no command {verb[:40]!r}; {remedy}`cronce --help` lists all commands"

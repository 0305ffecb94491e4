"""What `cronce add` and `cronce edit` are told of a job: the words of `Cronce.job`, as options."""

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, get_args

from cronce.cli.acting import acting, add_act, read_payload
from cronce.policy import Fold, Gap, Missed, OnLost, Overlap

if TYPE_CHECKING:
    from cronce.protocol.record import Stored
    from cronce.runtime.flow import Flow
    from cronce.runtime.hand.acts import Hand

SPANS: Final = {
    "start_within": "too late to start after this (default: until the next slot)",
    "jitter": "spread the starts over this long, by a hash of the slot",
    "backoff": "how long to wait before the first retry; twice as long before each further one",
    "timeout": "stop the run after this long",
    "lease": "how long a dead run blocks its slot (default: 30s under rerun, else 5m)",
}
CHOICES: Final = {
    "gap": (Gap, "a time that clocks jump over"),
    "fold": (Fold, "a time that comes twice"),
    "on_lost": (OnLost, "a run whose machine died"),
    "overlap": (Overlap, "while an earlier slot still runs"),
    "missed": (Missed, "slots that passed while nobody looked"),
}
NUMBERS: Final = {
    "turns": "how many runs may go on at once (default: 1)",
    "retries": "try again after a failure, up to N times (default: 0)",
}
INSTANTS: Final = {
    "at": "once, at this instant",
    "start": "no slot before this instant",
    "end": "no slot after this instant",
}
WORDS: Final = (
    "schedule", "every", "tz", "keep", "function", "isolate", "payload", *INSTANTS, *CHOICES, *NUMBERS, *SPANS,
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All but the schedule, which is an argument of one and an option of the other."""
    add = parser.add_argument
    add("--every", metavar="SPAN", help="instead of a cron expression: 15m, 2h, 1d")
    for word, text in INSTANTS.items():
        add(_option(word), metavar="INSTANT", help=text)
    add("--tz", metavar="ZONE", help="the zone the schedule is meant in (default: UTC)")
    add("--function", metavar="MODULE:NAME", help="an importable function, which the processes allow")
    add("--isolate", action=argparse.BooleanOptionalAction, help="run the function in a process of its own")
    add("--payload", metavar="JSON", help="what each run is given")
    for word, (choice, text) in CHOICES.items():
        choices = get_args(choice)
        add(_option(word), choices=choices, help=f"{text}: {', '.join(choices)}")
    for word, text in NUMBERS.items():
        add(_option(word), type=int, metavar="N", help=text)
    for word, text in SPANS.items():
        add(_option(word), metavar="SPAN", help=text)
    add("--keep", metavar="KEPT", help="runs to keep of each outcome: 100, or 30d")
    add_act(parser, reason=False)


def _option(word: str) -> str:
    return f"--{word.replace('_', '-')}"


def given(options: argparse.Namespace) -> dict[str, Any]:
    """What was said of the job."""
    words = {word: value for word in WORDS if (value := getattr(options, word)) is not None}
    if "payload" in words:
        words["payload"] = read_payload(words["payload"])
    return {**words, "command": list(options.command)} if options.command else words


def changed(
    options: argparse.Namespace,
    change: "Callable[[Hand], Flow[Stored | None]]",
    done: str,
    as_it_was: str,
    *,
    make: bool = False,
) -> int:
    """Change what the store has of the job, and say what came of it."""
    with acting(options, make=make) as actor:
        stored = actor.desk.do(change(actor.hand))
    if options.json:
        print(json.dumps({"job": options.name, "changed": bool(stored), "revision": stored and stored.revision}))
    else:
        print(f"{options.name} is {f'{done}, revision {stored.revision}' if stored else as_it_was}")
    return 0

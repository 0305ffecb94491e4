"""cronce deploy choose: which store, which trigger and which policies suit you. The rules: `integrations.guide`."""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args

from cronce.cli.terminal import ColouredText, ask, paint, screen, show
from cronce.errors import BadInput
from cronce.integrations.guide import Advice, Answers, Cost, GuideRule, Provider, Server, advise
from cronce.schedule import format_duration, parse_duration

CHOOSE_EPILOG = """
examples:
  cronce deploy choose
  cronce deploy choose --stores postgres,redis --provider aws --jobs 20 --every 5m --runs-for 10m \\
      --failure-costs money --idempotent no --machines 3 --json
"""

_YES_NO: Final = ("yes", "no")
_WIDTH: Final = 100


class GuideQuestion(NamedTuple):
    """One thing to know: asked on a terminal, said by an option, or assumed."""

    name: str
    text: str
    help: str
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


QUESTIONS: Final = (
    GuideQuestion(
        "stores", f"Which do you run already? ({', '.join(get_args(Server))}, none)", "which stores you run already"
    ),
    GuideQuestion("provider", "Where do the machines run?", "where the machines run", get_args(Provider)),
    GuideQuestion("machines", "On how many machines can a job start?", "on how many machines a job can start"),
    GuideQuestion("jobs", "How many jobs are there?", "how many jobs there are"),
    GuideQuestion(
        "every", "How often does the most frequent one fire? (30s, 5m, 1d)", "how often the most frequent job fires"
    ),
    GuideQuestion("runs_for", "How long does the longest run take?", "how long the longest run takes"),
    GuideQuestion(
        "failure_costs",
        "What does one run too many or too few cost?",
        "what one run too many or too few costs",
        get_args(Cost),
    ),
    GuideQuestion("idempotent", "May a run be repeated without harm?", "whether runs may be repeated", _YES_NO),
    GuideQuestion(
        "add_server", "Is one more server to operate acceptable?", "whether one more server is acceptable", _YES_NO
    ),
)


def add_choose_arguments(parser: argparse.ArgumentParser) -> None:
    for one in QUESTIONS:
        metavar = None if one.choices else {"stores": "LIST", "every": "SPAN", "runs_for": "SPAN"}.get(one.name, "N")
        parser.add_argument(
            one.flag,
            choices=one.choices or None,
            metavar=metavar,
            help=f"{one.help} (if left out: asked, or {_assumed(one)})",
        )
    parser.add_argument("--json", action="store_true", help="print one JSON document, and ask nothing")


def run_choose(options: argparse.Namespace) -> None:
    asks = sys.stdin.isatty() and not options.json
    said = {one.name: getattr(options, one.name) or (_asked(one) if asks else _assumed(one)) for one in QUESTIONS}
    answers = Answers(**{name: _READ[name](text) for name, text in said.items()})
    advice = advise(answers)
    assumed = [one.flag for one in QUESTIONS if not (asks or getattr(options, one.name))]
    show(options, _document(said, advice), _page(said, advice, assumed), escape=False)


def _assumed(one: GuideQuestion) -> str:
    return _spelled(Answers._field_defaults[one.name])


def _asked(one: GuideQuestion) -> str:
    choices = f" ({', '.join(one.choices)})" if one.choices else ""
    while True:
        answer = ask(f"{one.text}{choices} [{_assumed(one)}] ") or _assumed(one)
        try:
            if not one.choices or answer in one.choices:
                _READ[one.name](answer)
                return answer
            print(f"  one of {', '.join(one.choices)}")
        except BadInput as error:
            print(f"  {error}")


def _spelled(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case frozenset():
            return ",".join(sorted(value)) or "none"
        case int() | str():
            return str(value)
        case _:
            return format_duration(parse_duration(value))  # type: ignore[arg-type]


# --- reading ----------------------------------------------------------------------------------------------------------


def _servers(text: str) -> frozenset[str]:
    named = {word.strip() for word in text.split(",")} - {"", "none"}
    known = {"postgresql": "postgres", "mariadb": "mysql", "valkey": "redis"}
    meant = {known.get(word, word) for word in named}
    if odd := sorted(meant - set(get_args(Server))):
        raise BadInput(f"there is no store {odd[0]!r}; known: {', '.join(get_args(Server))}, none")
    return frozenset(meant)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 10_000_000:
        raise BadInput(f"{text[:40]!r} is not a number from 1 to 10,000,000")
    return int(text)


def _span(text: str) -> Any:
    span = parse_duration(text)
    if not span:
        raise BadInput("this must be more than zero: write it like 30s, 5m or 1d")
    return span


_READ: Final[dict[str, Any]] = {
    "stores": _servers, "provider": str, "machines": _count, "jobs": _count, "every": _span, "runs_for": _span,
    "failure_costs": str, "idempotent": "yes".__eq__, "add_server": "yes".__eq__,
}  # fmt: skip


# --- telling ----------------------------------------------------------------------------------------------------------


def _rules(advice: Advice) -> dict[str, GuideRule]:
    return {name: value for name, value in advice._asdict().items() if isinstance(value, GuideRule)}


def _document(said: dict[str, str], advice: Advice) -> dict[str, object]:
    rules = _rules(advice)
    return {
        "answers": said,
        **{name: rule.choice for name, rule in rules.items()},
        "timeout": advice.timeout,
        "reasons": {name: rule.because for name, rule in rules.items()},
        "trade_offs": {name: rule.but for name, rule in rules.items() if rule.but},
        "notes": advice.notes,
        "install": advice.install,
        "snippet": advice.snippet._asdict(),
    }


def _page(said: dict[str, str], advice: Advice, assumed: Sequence[str]) -> str:
    on = screen()
    parts = [", ".join(f"{name.replace('_', ' ')} {text}" for name, text in said.items())]
    if assumed:
        parts += _wrapped(f"not given, and assumed: {', '.join(assumed)}")
    for name, rule in _rules(advice).items():
        lines = [paint(ColouredText(f"{name}: {rule.choice}", "good"), on), *_wrapped(rule.because)]
        parts.append("\n".join([*lines, *(_wrapped(f"but {rule.but}") if rule.but else [])]))
    parts.append("\n".join(line for note in advice.notes for line in _wrapped(note)))
    return "\n\n".join([*parts, advice.install, advice.snippet.text.rstrip()])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")

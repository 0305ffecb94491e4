"""cronce deploy completion: scripts for shells. They ask `cronce completion words` what may come next: verbs, options,
choices and the names of jobs."""

import argparse
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from cronce.cli import HELP_OF_VERB, UNDER, parser_of, verb_of
from cronce.errors import CronceError

COMPLETION_EPILOG = """
to have completion in every new shell:
  bash   cronce deploy completion bash > ~/.local/share/bash-completion/completions/cronce
  zsh    cronce deploy completion zsh > ~/.zfunc/_cronce      (a directory of your $fpath)
  fish   cronce deploy completion fish > ~/.config/fish/completions/cronce.fish
"""

SCRIPTS: Final = {
    "bash": """\
# cronce completion for bash
_cronce() {
    local IFS=$'\\n'
    local found=$(cronce completion words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f1)
    COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _cronce cronce
""",
    "zsh": """\
#compdef cronce
# cronce completion for zsh
_cronce() {
    local -a found=(${(f)"$(cronce completion words -- ${words[2,CURRENT-1]} 2>/dev/null)"})
    if ((${#found})); then
        found=("${(@)found//$'\\t'/:}")
        _describe 'cronce' found
    else
        _default
    fi
}
if [[ "$funcstack[1]" == _cronce ]]; then
    _cronce "$@"
else
    compdef _cronce cronce
fi
""",
    "fish": """\
# cronce completion for fish
complete -c cronce -a '(cronce completion words -- (commandline -opc)[2..] 2>/dev/null)'
""",
}
COMPLETION_TIMEOUT: Final = 2
"""Seconds to wait for the names of jobs: a person waits at the prompt."""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    words = "which shell (`words -- WORD …` is for the scripts)"
    parser.add_argument("shell", choices=(*SCRIPTS, "words"), help=words)


def run_completion(options: argparse.Namespace) -> None:
    if options.shell == "words":
        print("\n".join(_next_words(options.command)))
    else:
        print(SCRIPTS[options.shell], end="")


def _next_words(words: Sequence[str]) -> Iterator[str]:
    """What may stand behind these words, each with its text after a tab."""
    verb, spelled = verb_of(words)
    if not words:
        yield from (f"{name}\t{text}" for name, text in HELP_OF_VERB.items())
        yield from ("--help", "--version")
    if not verb or "--" in words:  # no verb of ours, or the words of another command
        return
    parser, rest = parser_of(verb), words[len(spelled.split()) :]
    options = [one for one in parser._actions if one.option_strings]  # argparse has no other way to ask
    asked = next((one for one in options if rest and rest[-1] in one.option_strings and one.nargs != 0), None)
    if asked is not None:
        yield from map(str, asked.choices or ())
        return
    if not rest:
        yield from (f"{name}\t{text}" for name, text in UNDER.get(verb, {}).items())
    for one in parser._actions:
        if not one.option_strings:
            yield from map(str, one.choices or ())
            yield from _job_names() if "JOB" in str(one.metavar) or one.metavar == "SLOT" else ()
    yield from (f"{flag}\t{one.help or ''}" for one in options for flag in one.option_strings)


def _job_names() -> Iterator[str]:
    """Of the store that would be used without an option; nothing if that cannot be had at once."""
    from cronce.cli.session import looking  # noqa: PLC0415  only where a job is to be named
    from cronce.runtime.queries import job_names  # noqa: PLC0415

    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.alarm(COMPLETION_TIMEOUT)
    with suppress(CronceError), looking(argparse.Namespace(store=None)) as node:
        yield from node.do(job_names())
    signal.alarm(0)

"""cronce completion: scripts that let shells complete verbs, options and choices. Generated from the parsers."""

import argparse
from collections.abc import Iterable
from typing import Final, NamedTuple

from cronce.cli import VERBS, parser_of

EXAMPLES = """
to have it in every shell:
  bash   cronce completion bash > ~/.local/share/bash-completion/completions/cronce
  zsh    cronce completion zsh > ~/.zfunc/_cronce      (a directory of your $fpath)
  fish   cronce completion fish > ~/.config/fish/completions/cronce.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="which shell")
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    print(_SCRIPTS[options.shell]([_command(verb) for verb in VERBS]), end="")
    return 0


class Option(NamedTuple):
    """An option: its spellings, what it is for, whether a value follows, and which values there are to choose from."""

    flags: tuple[str, ...]
    text: str
    takes_value: bool
    choices: tuple[str, ...]


class Command(NamedTuple):
    verb: str
    text: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """What may stand there besides options: actions, or choices of an argument."""

    @property
    def flags(self) -> list[str]:
        return [flag for option in self.options for flag in option.flags]


def _command(verb: str) -> Command:
    actions = parser_of(verb)._actions  # argparse has no other way to ask
    options = tuple(_option(action) for action in actions if action.option_strings)
    words = (choice for action in actions if not action.option_strings for choice in action.choices or ())
    return Command(verb, VERBS[verb], options, tuple(words))


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), action.help or "", action.nargs != 0, choices)


# --- bash -----------------------------------------------------------------------------------------------------------

_BASH: Final = """\
# cronce completion for bash
_cronce() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} word words
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -- ]] && return  # what follows is another command
    done
    if ((COMP_CWORD == 1)); then
        words="{verbs} --help --version"
    else
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
            *)
                case "${{COMP_WORDS[1]}}" in
{commands}
                    *) return ;;
                esac
                ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _cronce cronce
"""


def _bash(commands: list[Command]) -> str:
    return _BASH.format(
        verbs=" ".join(command.verb for command in commands),
        values="\n".join(
            f"            {_patterns(command, option)}) {_words(option)} ;;"
            for command, option in _with_values(commands)
        ),
        commands="\n".join(
            f'                    {command.verb}) words="{" ".join([*command.words, *command.flags])}" ;;'
            for command in commands
        ),
    )


def _with_values(commands: list[Command]) -> Iterable[tuple[Command, Option]]:
    return ((command, option) for command in commands for option in command.options if option.takes_value)


def _patterns(command: Command, option: Option) -> str:
    return "|".join(f'"{command.verb} {flag}"' for flag in option.flags)


def _words(option: Option) -> str:
    return f'words="{" ".join(option.choices)}"' if option.choices else "return"


# --- zsh ------------------------------------------------------------------------------------------------------------

_ZSH: Final = """\
#compdef cronce
# cronce completion for zsh
_cronce() {{
    local -a verbs=(
{verbs}
    )
    if ((CURRENT == 2)); then
        _describe 'verb' verbs
        return
    fi
    if ((${{words[(i)--]}} < CURRENT)); then
        _default  # what follows is another command
        return
    fi
    case "$words[2] $words[CURRENT-1]" in
{values}
    esac
    case "$words[2]" in
{commands}
    esac
}}
if [[ "$funcstack[1]" == _cronce ]]; then
    _cronce "$@"
else
    compdef _cronce cronce
fi
"""


def _zsh(commands: list[Command]) -> str:
    return _ZSH.format(
        verbs="\n".join(f"        {_quoted(f'{one.verb}:{one.text}')}" for one in commands),
        values="\n".join(
            f"        {_patterns(command, option)}) {_added(option.choices)}; return ;;"
            for command, option in _with_values(commands)
        ),
        commands="\n".join(f"        {one.verb}) {_added([*one.words, *one.flags])} ;;" for one in commands),
    )


def _added(words: Iterable[str]) -> str:
    listed = " ".join(words)
    return f"compadd -- {listed}" if listed else "_default"


# --- fish -----------------------------------------------------------------------------------------------------------


def _fish(commands: list[Command]) -> str:
    lines = ["# cronce completion for fish", "complete -c cronce -n __fish_use_subcommand -f"]
    for command in commands:
        seen = _quoted(f"__fish_seen_subcommand_from {command.verb}")
        lines.append(f"complete -c cronce -n __fish_use_subcommand -a {command.verb} -d {_quoted(command.text)}")
        lines += [f"complete -c cronce -n {seen} -f -a {_quoted(' '.join(command.words))}"] if command.words else []
        lines += [f"complete -c cronce -n {seen} {_fish_option(option)}" for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    flags = (f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" if option.takes_value else ""
    return f"{' '.join(flags)}{value} -d {_quoted(option.text)}"


def _quoted(text: str) -> str:
    """In quotes that zsh and fish both read: neither looks into single ones but for the quote itself."""
    return "'" + text.replace("'", "’") + "'"


_SCRIPTS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}

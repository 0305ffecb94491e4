"""cronce completion: scripts that let shells complete verbs, options and choices. Generated from the parsers."""

import argparse
from typing import Final

from cronce.cli import VERBS, parser_of

COMPLETION_EPILOG = """
to have it in every shell:
  bash   cronce completion bash > ~/.local/share/bash-completion/completions/cronce
  zsh    cronce completion zsh > ~/.zfunc/_cronce      (a directory of your $fpath)
  fish   cronce completion fish > ~/.config/fish/completions/cronce.fish
"""

# Sets `found` to what may stand there, by the verb and the word before it. Bash and zsh both read it.
_WORDS: Final = """\
_cronce_words() {{
    case "$1 $2" in
{cases}
    esac
}}
"""

_BASH: Final = """\
# cronce completion for bash
{words}_cronce() {{
    local found= verb= word
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -- ]] && return  # what follows is another command
    done
    ((COMP_CWORD > 1)) && verb=${{COMP_WORDS[1]}}
    _cronce_words "$verb" "${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=($(compgen -W "$found" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _cronce cronce
"""

_ZSH: Final = """\
#compdef cronce
# cronce completion for zsh
{words}_cronce() {{
    local -a verbs=(
{verbs}
    )
    if ((CURRENT == 2)); then
        _describe 'verb' verbs
        return
    fi
    local found=
    ((${{words[(i)--]}} < CURRENT)) || _cronce_words "$words[2]" "$words[CURRENT-1]"
    if [[ -n $found ]]; then
        compadd -- ${{=found}}
    else
        _default  # a value, or a word of another command
    fi
}}
if [[ "$funcstack[1]" == _cronce ]]; then
    _cronce "$@"
else
    compdef _cronce cronce
fi
"""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def run_completion(options: argparse.Namespace) -> None:
    if options.shell == "fish":
        print("\n".join(_fish()))
        return
    words = _WORDS.format(cases="\n".join(_cases()))
    verbs = "\n".join(f"        {_quoted(f'{verb}:{text}')}" for verb, text in VERBS.items())
    print((_BASH if options.shell == "bash" else _ZSH).format(words=words, verbs=verbs), end="")


def _cases() -> list[str]:
    """First what may follow an option that takes a value, then what else a verb takes."""
    cases = [_case('" "*', [*VERBS, "--help", "--version"])]
    for verb in VERBS:
        options, arguments = _actions(verb)
        for option in options:
            if option.nargs != 0:
                patterns = "|".join(f'"{verb} {flag}"' for flag in option.option_strings)
                cases.append(_case(patterns, _choices(option)))
        words = [word for one in arguments for word in _choices(one)]
        cases.append(_case(f'"{verb} "*', [*words, *(flag for one in options for flag in one.option_strings)]))
    return cases


def _case(patterns: str, words: list[str]) -> str:
    return f'        {patterns}) found="{" ".join(words)}" ;;'


def _fish() -> list[str]:
    lines = ["# cronce completion for fish", "complete -c cronce -n __fish_use_subcommand -f"]
    for verb, text in VERBS.items():
        options, arguments = _actions(verb)
        words = " ".join(word for one in arguments for word in _choices(one))
        seen = f"complete -c cronce -n {_quoted(f'__fish_seen_subcommand_from {verb}')}"
        lines.append(f"complete -c cronce -n __fish_use_subcommand -a {verb} -d {_quoted(text)}")
        lines += [f"{seen} -f -a {_quoted(words)}"] if words else []
        lines += [f"{seen} {_fish_option(option)}" for option in options]
    return lines


def _fish_option(option: argparse.Action) -> str:
    flags = (f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.option_strings)
    choices = " ".join(_choices(option))
    value = f" -x -a {_quoted(choices)}" if choices else " -r" if option.nargs != 0 else ""
    return f"{' '.join(flags)}{value} -d {_quoted(option.help or '')}"


def _actions(verb: str) -> tuple[list[argparse.Action], list[argparse.Action]]:
    """A verb's options, and its arguments."""
    actions = parser_of(verb)._actions  # argparse has no other way to ask
    return [one for one in actions if one.option_strings], [one for one in actions if not one.option_strings]


def _choices(action: argparse.Action) -> list[str]:
    return list(map(str, action.choices or ()))


def _quoted(text: str) -> str:
    """In quotes that zsh and fish both read: neither looks into single ones but for the quote itself."""
    return "'" + text.replace("'", "’") + "'"

"""manage.py cronce VERB …: the whole command line, on the project's store and with the project's jobs."""

import os
import sys
from argparse import REMAINDER
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from cronce.cli import main
from cronce.errors import BadInput
from cronce.integrations.django.project import store_url, without_a_store
from cronce.stores.default import URL_VARIABLE

CRON: Final = "cronce.integrations.django:cron"


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    help = "cron, once: run, inspect and control the project's jobs"

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """All words are the verb's, and its exit code is ours."""
        connections.close_all()  # `run -n 3` forks
        sys.exit(call(_without_djangos(argv[2:])))

    def print_help(self, *_names: str) -> None:
        main(["--help"])

    def add_arguments(self, parser: CommandParser) -> None:
        """For `call_command("cronce", "jobs", "--json")`."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *_args: object, words: Sequence[str], **options: Any) -> None:
        with redirect_stdout(options.get("stdout") or sys.stdout), redirect_stderr(options.get("stderr") or sys.stderr):
            code = call(words)
        if code:
            raise CommandError(f"cronce {' '.join(words[:1])} ended with {code}", returncode=code)


def call(words: Sequence[str]) -> int:
    try:
        url = store_url()
    except BadInput as error:
        print(f"cronce: {error}", file=sys.stderr)
        return 2
    if url is not None:
        os.environ[URL_VARIABLE] = url  # for whatever the verb starts, too
    elif unnamed := without_a_store():
        print(f"cronce: {unnamed}", file=sys.stderr)
    return main([*words[:1], CRON, *words[1:]] if words[:1] == ["run"] else words)


def _without_djangos(words: Sequence[str]) -> list[str]:
    """Without the two options that `manage.py` has seen to; behind two dashes all is a command's own."""
    place = words.index("--") if "--" in words else len(words)
    parser = CommandParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return [*parser.parse_known_args(words[:place])[1], *words[place:]]

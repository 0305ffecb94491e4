"""cronce leaders: who leads which group, in which term, and who led it before."""

import argparse

from cronce.cli import leases
from cronce.runtime.look import leaders
from cronce.telling.documents import leader_says

WORDS = leases.Words(
    "leaders",
    "group",
    "nobody ever led a group",
    "leader",
    "led before by",
    leaders,
    fence="term",
    of=leader_says,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    leases.add_arguments(parser, WORDS, "indexer")


def run(options: argparse.Namespace) -> int:
    return leases.run(options, WORDS)

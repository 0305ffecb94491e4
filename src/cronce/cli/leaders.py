"""cronce leaders: who leads which group, in which term, and who led it before."""

import argparse

from cronce.cli import leases
from cronce.protocol.record import RELEASED
from cronce.runtime.look import leaders

WORDS = leases.Words(
    "leaders",
    "group",
    "nobody ever led a group",
    "leader",
    "led before by",
    leaders,
    fence="term",
    says={"held": "led", "free": "vacant", RELEASED: "resigned"},
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    leases.add_arguments(parser, WORDS, "indexer")


def run(options: argparse.Namespace) -> int:
    return leases.run(options, WORDS)

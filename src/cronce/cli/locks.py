"""cronce locks: who holds which lock, and who held it before."""

import argparse

from cronce.cli import leases
from cronce.runtime.look import locks

WORDS = leases.Words("locks", "lock", "nobody ever held a lock", "holder", "held before by", locks)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    leases.add_arguments(parser, WORDS, "reindex")


def run(options: argparse.Namespace) -> int:
    return leases.run(options, WORDS)

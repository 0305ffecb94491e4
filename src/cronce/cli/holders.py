"""cronce holders: the schedulers that are alive."""

import argparse
import json
from typing import TYPE_CHECKING

from cronce.cli.looking import add_store, looking, nothing, tone
from cronce.cli.table import Text, Toned, screen, table
from cronce.clock import SystemClock
from cronce.model import spell
from cronce.runtime.flow import drive
from cronce.runtime.holders import HolderSeen, holders
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.telling.documents import holder_document
from cronce.telling.words import ago, by_whom

if TYPE_CHECKING:
    from cronce.model import Instant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    with looking(options) as store:
        now, live = drive(holders(), store, SystemClock())
    if options.json:
        print(json.dumps({"holders": [holder_document(one) for one in live]}))
    else:
        headers = ["holder", "role", "workers", "labels", "since", "version", "last beat", "state"]
        rows = [_row(one, now) for one in live]
        print(table(headers, rows, screen()) if rows else nothing("no scheduler is alive", options))
    return 0


def _row(one: HolderSeen, now: "Instant") -> list[Text]:
    holder = one.holder
    labels = " ".join(f"{name}={value}" for name, value in sorted(holder.labels.items()))
    since, beat = spell(holder.since), ago(one.until - HOLDER_TTL, now)
    return [holder.holder, holder.role, str(holder.workers), labels, since, holder.cronce, beat, _state(one)]


def _state(one: HolderSeen) -> Toned:
    if one.drained is not None:
        return Toned(f"drained {by_whom(one.drained)}", tone("paused"))
    return Toned("draining", tone("paused")) if one.holder.draining else Toned("at work", tone("held"))

"""python -m bench.peers: play the cells that have no result yet, keep each result, write the page."""

import argparse
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from bench.peers import page
from bench.peers.peers import PEERS
from bench.peers.results import Name, cells, load, measure

AT_ONCE = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="NAME", help="cells of these peers, scenarios and stores, also again")
    add("--ours", action="store_true", help="cells of cronce only")
    add("--at-once", type=int, default=AT_ONCE, help=f"cells at the same time; they mostly wait (default: {AT_ONCE})")
    add("--list", action="store_true", help="name the cells, run nothing")
    add("--docs", action="store_true", help="write the page from the results, run nothing")
    return parser.parse_args()


def wanted(options: argparse.Namespace) -> list[Name]:
    """Of those that are named: a peer, a scenario and a store each, where one of that kind is named."""
    every = [name for name in cells() if not options.ours or PEERS[name[0]].ours]
    if not options.only:
        done = load()
        return [name for name in every if name not in done]
    unknown = set(options.only) - {word for name in cells() for word in name}
    if unknown:
        sys.exit(f"there is no peer, scenario or store {', '.join(sorted(unknown))}; see --list")
    kinds = [{name[kind] for name in cells()} & set(options.only) for kind in range(3)]
    return [name for name in every if all(not kind or word in kind for kind, word in zip(kinds, name, strict=True))]


def main() -> int:
    options = arguments()
    names = wanted(options)
    if options.list:
        print("\n".join(" ".join(name) for name in names))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    began = time.monotonic()
    ours_failed = 0
    with ThreadPoolExecutor(options.at_once) as pool:
        running = [] if options.docs else [pool.submit(measure, name) for name in names]
        for done in as_completed(running):
            one = done.result()
            bad = bool(one["duplicated"] or one["missed"] or one.get("trouble"))
            ours_failed += bad and PEERS[one["peer"]].ours
            told = one.get("trouble") or f"{one['duplicated']} duplicated, {one['missed']} missed of {one['expected']}"
            print(f"{one['peer']} {one['scenario']} {one['store']}: {told} {one.get('rerun', '')}", flush=True)
    page.write(load())
    print(f"{len(running)} cells in {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    return int(ours_failed > 0)


if __name__ == "__main__":
    sys.exit(main())

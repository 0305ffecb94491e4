"""A soak: schedulers that stay up while their stores are tortured, purged and upgraded, and what they use meanwhile.

    python -m bench.soak --minutes 60

On each store two schedulers run jobs every second, and runs of one job are purged. One of them stays up the whole
time: its memory, threads and file handles are read. Both begin as the older release, and are upgraded one after the
other while they work. The second one goes back to the older release before a round, and comes back before the next: the
older cannot read what the newer wrote, and must leave it alone.

A round is a `cronce torture` of half a minute on one store after the other, with a hard restart of the server in it. A
file that the jobs append to is counted at the end.
"""

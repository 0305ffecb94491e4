"""RedBeat on each of the hosts: one of them has the lock, the others wait for it. Its defaults are five
minutes for the loop and 25 for the lock; here a second and a lease, or no takeover would fit into a cell."""

from datetime import UTC, datetime

from bench.peers.adapters.by_celery import application, serve
from bench.peers.ledger import LEASE, current, order

if __name__ == "__main__":
    serve("redbeat", "-S", "redbeat.RedBeatScheduler", "--max-interval", "1")
else:
    from redbeat.schedules import rrule

    begin = datetime.fromtimestamp(current(), UTC)  # RedBeat walks through all instants from there
    schedule = rrule("SECONDLY", dtstart=begin, interval=order().period)
    app = application(
        redbeat_redis_url=order().broker,
        redbeat_lock_timeout=LEASE + 1,
        beat_max_loop_interval=1,
        beat_schedule={"tick": {"task": "tick", "schedule": schedule}},
    )

"""Celery beat on each of the hosts, with its own scheduler."""

from bench.peers.adapters.by_celery import application, serve

if __name__ == "__main__":
    serve("celery_beat")
else:
    app = application()

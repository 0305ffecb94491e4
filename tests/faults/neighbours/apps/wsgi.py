"""A Flask app that starts a scheduler when it is imported: once in each worker."""

from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

from cronce import Cronce
from cronce.integrations.apscheduler import protect
from tests.faults.neighbours.apps import GUARDED, PERIOD
from tests.faults.neighbours.book import note

app = Flask(__name__)
scheduler = BackgroundScheduler(timezone="UTC")
if GUARDED:
    protect(scheduler, Cronce())
scheduler.add_job(note, "cron", second=f"*/{PERIOD}", id="report")
scheduler.start()
note("up")

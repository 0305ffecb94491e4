"""Which words start a scheduler, a worker or a cron."""

import pytest

from cronce_audit.processes.argv import known_program


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("celery -A app beat", "celery beat"), ("celery -A worker beat", "celery beat"),
        ("celery -A beat worker", "celery worker"),
        ("poetry run celery --app=x worker -B", "celery worker"), ("python -m celery -A x beat", "celery beat"),
        ("celery -A app flower", None), ("celery inspect ping", None), ("gosu app rq worker high", "rq worker"),
        ("python manage.py rqworker", "manage.py rqworker"), ("python manage.py runserver", None),
        ("./manage.py qcluster", "manage.py qcluster"), ("bundle exec sidekiq -C x", "sidekiq"),
        ("php artisan schedule:work", "artisan schedule:work"), ("php artisan schedule:run", None),
        ("/usr/local/bin/supercronic /crontab", "supercronic"), ("cron -f", "cron"), ("service cron start", "cron"),
        ("busybox crond -f", "crond"), ("command -v cron", None), ("service nginx start", None), ("crontab -l", None),
        ("python -u scheduler.py", "scheduler.py"), ("python -m app.worker", "app.worker"),
        ("node dist/cron.js", "dist/cron.js"),
        ("python -c scheduler", None), ("python app.py", None), ("python $SCRIPT", None), ("node coworker.js", None),
        ("gunicorn scheduler:app", None), ("echo celery beat", None), ("cronce run jobs:cron", "cronce run"),
        ("cronce exec x -- y", None), ("tail -f /var/log/cron", None), ("env A=1 celery -A x beat", "celery beat"),
        ("", None),
    ],
)  # fmt: skip
def test_which_program_is_a_scheduler_a_worker_or_a_cron(text: str, expected: str | None) -> None:
    found = known_program(text.split())
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("text", "detaches"),
    [("cron", True), ("cron -l 2", True), ("cron -f", False), ("cron -f -L 15", False), ("crond", True),
     ("crond -b", True), ("crond -fl8", False), ("crond -n", False), ("service cron start", True),
     ("/etc/init.d/cron start", True)],
)  # fmt: skip
def test_which_cron_goes_to_the_background(text: str, detaches: bool) -> None:
    found = known_program(text.split())
    assert found is not None
    assert found.detaches is detaches

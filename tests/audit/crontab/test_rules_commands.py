"""What is told of a command: its job, and nothing that may be secret."""

from cronce_audit.crontab.read import shown
from cronce_audit.crontab.rules import job_of


def test_what_is_shown_of_a_command_is_no_secret() -> None:
    assert shown("cd /app && mysqldump -psecret app") == "mysqldump"
    assert shown("curl https://u:p@host/x") == "curl"
    assert shown("PASSWORD=secret php artisan --x") == "php artisan"
    assert shown("/app/run sync now") == "/app/run sync"
    assert shown(")(") == ")("
    assert shown("su-exec www-data /app/run sync") == "/app/run sync"
    assert shown("sh -c 'cd /app; make clean'") == "make clean"


def test_the_job_of_a_command_is_without_its_output() -> None:
    assert job_of("a  b >> /var/log/x.log 2>&1") == "a b"
    assert job_of("a b &> /dev/null") == "a b"
    assert job_of("a > x; b") == "a > x; b"
    assert job_of("a b > /dev/null 2>&1") == "a b"
    assert job_of("a b 2> /var/log/x.err < /dev/null") == "a b"
    assert job_of("a b > x 2>&1") == "a b > x"

"""Tests as a Django project has them: `manage.py test` runs them, on a database that it makes for that."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from io import StringIO
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import InterfaceError, connection
from django.test import TestCase, TransactionTestCase, override_settings

from cronce import Skipped
from cronce.errors import StoreUnavailable
from cronce.integrations.django import cron, project
from cronce.integrations.django.management.commands.cronce import Command, _without_djangos
from cronce.testing import manual
from tests.integrations.django.site.shop.jobs import report
from tests.integrations.django.site.shop.models import Report

NINE = "2026-03-28T08:00:00Z"  # by clocks in Berlin, in winter
AFTER_NINE = "2026-03-28T08:00:01Z"
by_hand = cron.job(name="by-hand")(report.fn)


class TestJobs(TestCase):  # type: ignore[misc]  # Django has no types
    def test_in_a_test_case_the_clock_is_turned_by_hand(self) -> None:
        time = self.enterContext(manual(cron, "2026-03-28T00:00:00Z", processes=3))
        time.advance("2d")  # the second of them is an hour short in Berlin
        keys = [f"report@{NINE}", "report@2026-03-29T07:00:00Z"]
        assert list(Report.objects.values_list("key", flat=True)) == keys

    def test_a_call_within_a_test_is_within_its_transaction(self) -> None:
        with manual(cron, NINE) as time:
            time.advance("1s")
            by_hand(slot=AFTER_NINE)
            assert isinstance(by_hand(slot=AFTER_NINE), Skipped)
        assert connection.in_atomic_block
        assert Report.objects.count() == 1


class TestTransactions(TransactionTestCase):  # type: ignore[misc]
    def test_a_run_commits_together_with_what_it_writes(self) -> None:
        with manual(cron, "2026-01-31T23:00:00Z") as time:
            time.advance("2h")
            assert time.records()["together@2026-02-01T00:00:00Z"].outcome == "succeeded"
        assert Report.objects.get().key == "together@2026-02-01T00:00:00Z"

    def test_a_call_leaves_the_callers_connection_alone(self) -> None:
        connection.ensure_connection()
        before = connection.connection
        with manual(cron, NINE) as time:
            time.advance("1s")
            by_hand(slot=AFTER_NINE)
        assert Report.objects.count() == 1
        assert connection.connection is before

    def test_a_connection_that_cannot_be_closed_is_no_failure_of_the_body(self) -> None:
        broken = mock.patch.object(project, "close_old_connections", side_effect=InterfaceError("closed already"))
        with manual(cron, "2026-03-28T00:00:00Z") as time, broken, self.assertLogs("cronce", "WARNING"):
            time.advance("9h")
            assert time.records()[f"report@{NINE}"].outcome == "succeeded"

    def test_no_connection_is_open_when_a_verb_starts(self) -> None:
        """It may fork, and two processes on one connection would read each other's answers."""
        connection.ensure_connection()
        with redirect_stdout(StringIO()), pytest.raises(SystemExit):
            Command().run_from_argv(["manage.py", "cronce", "--version"])
        assert connection.connection is None

    def test_the_store_is_in_the_database_of_the_test(self) -> None:
        assert settings.DATABASES["default"]["NAME"].startswith("test_")
        cron.at_work()
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM cronce.cronce_meta")
            assert cursor.fetchone() == (1,)
        cron.close()


class TestCommand(TestCase):  # type: ignore[misc]
    def test_the_command_line_is_on_the_projects_store(self) -> None:
        out = StringIO()
        with closing(cron):
            cron.pause("report", reason="a test")
        call_command("cronce", "jobs", "--json", stdout=out)
        paused = {job["job"]: job["paused"] for job in json.loads(out.getvalue())["jobs"]}
        assert paused["report"] is True

    def test_what_goes_wrong_has_the_exit_code_of_the_command_line(self) -> None:
        wrong = {"runs nobody": 1, "nonsense": 2, "jobs --store redis://127.0.0.1:1": 75}
        for words, code in wrong.items():
            with pytest.raises(CommandError) as raised:
                call_command("cronce", *words.split(), stderr=StringIO())
            assert raised.value.returncode == code, words

    def test_only_what_is_djangos_own_is_taken_out_of_the_words(self) -> None:
        given = ["exec", "x", "--settings=a.b", "--pythonpath", "lib", "--tz", "UTC", "--", "run", "--settings=mine"]
        assert _without_djangos(given) == ["exec", "x", "--tz", "UTC", "--", "run", "--settings=mine"]

    def test_settings_that_make_no_sense_are_said_by_check(self) -> None:
        wrong: list[object] = [{"store": "nowhere"}, {"url": "redis://x:secret@y"}, [], {"store": 7}]
        options = ("default?bogus=1", "sqlite:///x.db?bogus=1", "redis://:secret@x?bogus=1", "etcd://x?bogus=1")
        for given in [*wrong, *({"store": url} for url in (*options, "mysql://x:secret@y/z?bogus=1"))]:
            with override_settings(CRONCE=given), pytest.raises(SystemCheckError) as raised:
                call_command("check")
            assert "cronce.E001" in str(raised.value)
            assert "secret" not in str(raised.value)

    def test_a_store_that_nobody_named_is_said_by_check_and_by_the_command(self) -> None:
        home = self.enterContext(TemporaryDirectory())
        words = f"neither CRONCE['store'] nor $CRONCE_URL is set: slots are kept in {home}/cronce/cronce.db"
        self.enterContext(override_settings(CRONCE={}))
        with mock.patch.dict(os.environ, {"XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}):
            os.environ.pop("CRONCE_URL", None)
            with mock.patch("cronce.stores.default._refuse_private"):
                assert (self.checked(words), self.told(words)) == (1, 1)
            with mock.patch.dict(os.environ, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}):
                with override_settings(CRONCE={"store": "default"}):
                    assert self.checked("W001") == 0
                assert (self.checked("three pods"), self.told("three pods")) == (1, 1)
            with mock.patch.dict(os.environ, {"CRONCE_URL": f"sqlite:///{home}/x.db"}):
                assert (self.checked("W001"), self.told("CRONCE['store']")) == (0, 0)

    def checked(self, words: str) -> int:
        out = StringIO()
        call_command("check", stderr=out, stdout=out)
        return out.getvalue().count(words)

    def told(self, words: str) -> int:
        out = StringIO()
        call_command("cronce", "next", "@daily", stderr=out, stdout=out)
        return out.getvalue().count(words)


class TestAdmin(TestCase):  # type: ignore[misc]
    def setUp(self) -> None:
        self.time = self.enterContext(manual(cron, "2026-03-28T00:00:00Z"))
        self.time.advance("9h")

    def enter(self, *permissions: str) -> None:
        user = User.objects.create_user("anna", password="anna", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        self.client.force_login(user)

    def test_jobs_and_runs_are_shown_to_whom_may_view_them(self) -> None:
        self.enter("view_job", "view_run")
        assert "/admin/cronce/job/" in self.client.get("/admin/").content.decode()
        jobs = self.client.get("/admin/cronce/job/").content.decode()
        assert "at 09:00" in jobs
        assert "2026-03-29T07:00:00Z" in jobs  # the next slot
        runs = self.client.get("/admin/cronce/run/", {"job": "report"}).content.decode()
        assert NINE in runs
        assert "succeeded" in runs
        assert "together" not in runs

    def test_others_see_nothing(self) -> None:
        self.enter("view_run")
        assert self.client.get("/admin/cronce/job/").status_code == 403
        assert "/admin/cronce/job/" not in self.client.get("/admin/").content.decode()
        self.client.logout()
        assert self.client.get("/admin/cronce/run/").status_code == 302

    def test_even_a_superuser_only_looks(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        for page in ("job/add/", "job/report/change/", "run/1/delete/"):
            assert self.client.get(f"/admin/cronce/{page}").status_code == 404
        page = self.client.get("/admin/cronce/").content.decode()
        assert (page.count("viewlink"), page.count("addlink"), page.count("changelink")) == (2, 0, 0)

    def test_what_a_job_says_is_text(self) -> None:
        self.enter("view_job", "view_run")
        with pytest.raises(ValueError, match="script"):
            failing.at(NINE)()
        page = self.client.get("/admin/cronce/run/").content.decode()
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page
        page = self.client.get("/admin/cronce/run/", {"job": "<script>alert(2)"}).content.decode()
        assert "&lt;script&gt;alert(2)" in page
        assert "<script>alert" not in page


class TestAdminWithoutAStore(TestCase):  # type: ignore[misc]
    def test_a_store_that_is_away_is_what_the_page_says(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        for url, words in {"redis://:secret@127.0.0.1:1": "127.0.0.1:1", "nonsense://:secret@x": "known:"}.items():
            with elsewhere(url):
                for page in ("job", "run"):
                    reply = self.client.get(f"/admin/cronce/{page}/")
                    note = reply.content.decode().partition("errornote")[2]
                    assert (reply.status_code, words in note, "secret" in note) == (200, True, False)

    def test_what_a_store_of_others_says_is_masked_too(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        error = StoreUnavailable("nobody answers at theirs://anna:secret@db/shop")
        with mock.patch.object(cron, "at_work", side_effect=error):
            page = self.client.get("/admin/cronce/job/").content.decode()
        assert "theirs://anna:***@db/shop" in page
        assert "secret" not in page


@cron.job()
def failing() -> None:
    raise ValueError("<script>alert(1)</script>")


@contextmanager
def elsewhere(url: str) -> Iterator[None]:
    cron.close()
    cron.use(url)
    try:
        yield
    finally:
        cron.close()
        cron._use(project.store_url)

"""What Django does with us when it starts: it finds the jobs, and checks the settings."""

from pathlib import Path
from typing import Any, Final

from django.apps import AppConfig
from django.core import checks
from django.utils.module_loading import autodiscover_modules

from cronce.errors import CronceError
from cronce.integrations.django.databases import check_url
from cronce.integrations.django.project import store_url, without_a_store
from cronce.stores import mask_all

OUR_SOURCES: Final = f"{Path(__file__).parents[2]}/"

HINT: Final = "CRONCE = {'store': 'default'} in settings keeps slots in that database"


class CronceConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    name = "cronce.integrations.django"
    label = "cronce"
    verbose_name = "cronce"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(check_settings)
        try:
            autodiscover_modules("jobs", "cron")
        except CronceError as error:
            _point(error)
            raise


def _point(error: CronceError) -> None:
    """Let the traceback end at the line of the project that is wrong, and not at ours that noticed."""
    step = theirs = error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(OUR_SOURCES):
            theirs = step
        step = step.tb_next
    assert theirs is not None
    theirs.tb_next = None


def check_settings(**_named: Any) -> list[checks.CheckMessage]:
    """For `manage.py check`: whether settings name a store, by options that it has. It is not opened."""
    try:
        url = store_url()
        check_url(url or "")
    except CronceError as error:
        return [checks.Error(mask_all(str(error)), id="cronce.E001")]
    unnamed = "" if url else without_a_store()
    return [checks.Warning(unnamed, hint=HINT, id="cronce.W001")] if unnamed else []

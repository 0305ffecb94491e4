"""`cron`: the one `Cronce` of a Django project, on the store that its settings name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cronce.errors import BadInput, StoreUnusable
from cronce.integrations.django.databases import store_beside
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Work
from cronce.runtime.declare import Declaration, Policies
from cronce.runtime.log import LOGGER
from cronce.runtime.run import Run
from cronce.stores import mask_all
from cronce.stores.default import choose

try:
    import django
    from asgiref.sync import sync_to_async
    from django.apps import apps
    from django.conf import settings
    from django.db import close_old_connections, connections
except ImportError as missing:
    raise BadInput("cronce.integrations.django needs Django: pip install 'cronce[django]'") from missing


def store_url() -> str | None:
    """The store by the current settings: a test runner uses other databases than the settings file names."""
    given = getattr(settings, "CRONCE", {})
    if not isinstance(given, dict) or given.keys() - {"store"} or not isinstance(given.get("store", ""), str):
        raise BadInput(f"CRONCE must be {{'store': …}}, with an alias of DATABASES or a URL, not {_shown(given)}")
    store: str | None = given.get("store")
    if store is None or ":" in store:
        return store
    alias, _, options = store.partition("?")
    if alias not in connections.settings:
        known = ", ".join(connections.settings)
        raise BadInput(f"CRONCE['store'] is {alias!r:.60}, neither a URL nor one of DATABASES, which has {known}")
    return store_beside(connections[alias].vendor, connections[alias].settings_dict, options)


def without_a_store() -> str:
    """The warning where no store is named: each machine would run everything."""
    try:
        chosen = choose()
    except StoreUnusable as error:
        return f"CRONCE['store'] is not set: {mask_all(str(error))}"
    if not chosen.is_default:
        return ""
    return f"neither CRONCE['store'] nor $CRONCE_URL is set: slots are kept in {chosen.file}, on this machine only"


def _shown(given: Any) -> str:
    """Without values, which may be secrets."""
    return f"a dict with {', '.join(map(repr, given))}" if isinstance(given, dict) else f"a {type(given).__name__}"


class ProjectCron(Cronce):
    """Settings are read when the store is opened, and job functions leave no connection open."""

    def __init__(self) -> None:
        super().__init__()
        self._use(store_url)

    def _declare(self, job: Declaration, work: Callable[[], Work] | None, policies: Policies, place: str) -> None:
        """A job function that a scheduler runs is like a request to a web server. One that is called directly is part
        of its caller's work, which owns the connection."""
        super()._declare(job, None if work is None else partial(_like_a_request, work), policies, place)


def _like_a_request(make: Callable[[], Work]) -> Work:
    work = make()
    work.run = partial(_awaited if work.is_async else _called, work.run)
    return work


def _called(body: Callable[[Run], Any], run: Run) -> Any:
    """A test may run job functions within its own transaction, which must keep its connection."""
    if any(connection.in_atomic_block for connection in connections.all(initialized_only=True)):
        return body(run)
    _let_go()
    try:
        return body(run)
    finally:
        _let_go()


async def _awaited(body: Callable[[Run], Any], run: Run) -> Any:
    """Its queries are made on Django's own thread for that."""
    let_go = sync_to_async(_let_go)
    await let_go()
    try:
        return await body(run)
    finally:
        await let_go()


def _let_go() -> None:
    """Close connections that are broken, or older than CONN_MAX_AGE. If that fails, the run has not failed."""
    try:
        close_old_connections()
    except Exception:
        LOGGER.warning("a connection to a database could not be closed", exc_info=True)


cron = ProjectCron()

if not (apps.ready or apps.loading):  # a process that was started for one function, or by `cronce run shop.jobs:cron`
    django.setup()

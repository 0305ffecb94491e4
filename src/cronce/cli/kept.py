"""Where slots will be kept by a `cronce exec` that cron or systemd starts, and whether it can be started at all.

Such a process has a user, a home and the settings of its line, and nothing of the shell that one types in.
"""

import os
import sys
from collections.abc import Mapping
from typing import Literal

import cronce
from cronce.cli.machine import home_of, may_act_as, program, rights_of, this_user
from cronce.errors import StoreError
from cronce.stores import mask, scheme_of
from cronce.stores.default import VARIABLE, Chosen, choose

Starter = Literal["cron", "systemd"]


def place(user: str, settings: Mapping[str, str], starter: Starter = "cron") -> str:
    """Where it keeps slots, in words, and whether other hosts see that; or why it will run nothing."""
    chosen = _chosen(user, settings)
    if isinstance(chosen, str):
        return _refuses(chosen, starter)
    if scheme_of(chosen.url) not in ("sqlite", "memory"):
        return f"slots are kept in {mask(chosen.url)}"
    unseen = f"; {VARIABLE} is set here, and {starter} will not see it" if os.environ.get(VARIABLE) else ""
    also = f", or {VARIABLE}=… at the top of the crontab" if starter == "cron" else ""
    return (
        f"this host only: slots are kept in {chosen.file or mask(chosen.url)}, which no other host sees{unseen}. For"
        f' all hosts put url = "…" into /etc/cronce.toml{also}'
    )


def refusal(user: str, settings: Mapping[str, str], starter: Starter = "cron") -> str:
    """Why it will run nothing; nothing if it will, or if only that user could find out."""
    chosen = _chosen(user, settings)
    return _refuses(chosen, starter) if isinstance(chosen, str) else ""


def _refuses(why: str, starter: Starter) -> str:
    return f"as {starter} will run it, cronce will refuse: {why}"


def _chosen(user: str, settings: Mapping[str, str]) -> Chosen | str:
    """The store, found with that user's rights, so far as this process may have them; or why there is none."""
    home = home_of(user)
    if home is None:
        return f"{user!r} is no user of this machine"
    with rights_of(user):
        if shut := _shut(user):  # before anything else is loaded with these rights
            return f"{user} may not read {shut}; install cronce where that user may"
        try:
            chosen = choose(None, {**settings, "HOME": settings.get("HOME") or home})
        except StoreError as error:
            return str(error)
        if chosen.is_default and may_act_as(user) and not _can_be_made(chosen.file):
            return f'{user} cannot make {chosen.file}; put url = "…" into /etc/cronce.toml'
    return chosen


def _shut(user: str) -> str:
    """What of the program another user cannot get at: often a Python in root's home."""
    if user == this_user() or not may_act_as(user):
        return ""
    parts = (program()[0], os.path.realpath(sys.executable), cronce.__file__)
    return next((path for path in parts if not os.access(path, os.R_OK, effective_ids=True)), "")


def _can_be_made(path: str) -> bool:
    """Whether what there is of the way to a file, or the file itself, may be written to."""
    while not os.path.exists(path):  # noqa: PTH110  not that of pathlib, which raises where one may not look
        path = os.path.dirname(path)  # noqa: PTH120
    return os.access(path, os.W_OK, effective_ids=True)

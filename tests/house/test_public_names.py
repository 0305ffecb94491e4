"""The public names are a promise: adding one is a decision, losing one breaks somebody's import."""

import cronce

PUBLIC = [
    "AlreadyDone", "At", "Cron", "Cronce", "CronceError", "Every", "Fence", "InDoubt", "InProgress", "LeaseLost",
    "LockHeld", "Run", "Skipped", "TimedOut", "__version__", "current_run", "slot",
]  # fmt: skip


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(vars(cronce).get("__all__", [])) == PUBLIC


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in PUBLIC if not hasattr(cronce, name)] == []

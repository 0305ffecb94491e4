"""What the readers of Java tell the rules."""

from dataclasses import dataclass
from typing import Literal

from cronce_audit.model import Place


@dataclass(frozen=True, slots=True)
class ShedLock:
    """`@SchedulerLock` on a method."""

    place: Place
    is_spring: bool
    """The annotation that `@EnableSchedulerLock` of Spring looks for."""
    at_least: str | None
    """None where it is not given; "" where it is, and not spelled out."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A method with Spring's `@Scheduled`."""

    name: str
    """`Billing.run`."""
    cron: str | None
    """The expression; "" where it is not spelled out; None where the method runs at a fixed rate or delay."""
    rate: int | None
    """Milliseconds of a fixed rate or delay that is spelled out."""
    place: Place
    lock: ShedLock | None
    is_guarded: bool
    """A lock of another kind was seen in it, or a condition on it, or it is off unless a setting says when it runs."""
    leans_on: tuple[str, ...]
    """Classes that its class uses: a lock may be in them."""


Switch = Literal["scheduling", "locks", "application"]


@dataclass(frozen=True, slots=True)
class Enabled:
    """An annotation that switches something on for the whole application."""

    what: Switch
    place: Place
    is_conditional: bool
    has_least: bool
    """Of locks: there is a time that each is held at least."""


@dataclass(frozen=True, slots=True)
class LockingClass:
    """A class whose code speaks of locks that others see."""

    name: str


@dataclass(frozen=True, slots=True)
class WaitingLock:
    """A lock that a scheduled method waits for."""

    name: str
    call: str
    place: Place
    seconds: int | None
    """None: for as long as it takes."""


@dataclass(frozen=True, slots=True)
class QuartzSettings:
    """The settings of Quartz in one file, by their names without `org.quartz.`."""

    values: tuple[tuple[str, str, int], ...]
    """Name, value, line."""
    path: str

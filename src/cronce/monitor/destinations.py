"""Where notices go: the log, a webhook, a command, a function.

Each has a digest, by which all processes that have the same destination know it as one. It never shows its secret: the
URL of a webhook is often all that it takes to write there. What cannot be sent raises `Undelivered`, whose text holds
no secret.

*A `Sender`* takes notices from the alerts of a store to the destinations of this process. The monitor calls `deliver`
again and again, from one thread. Sending takes place in threads, one notice at a time for each destination, so that a
receiver that hangs delays no other.
"""

import json
import logging
import os
import signal
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from http.client import HTTPException
from typing import Any, Final, Protocol, runtime_checkable
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from cronce import __version__
from cronce.errors import BadInput, CronceError
from cronce.model import Boot
from cronce.monitor.alerts import (
    SEVERITIES,
    Alerts,
    Incident,
    IsOver,
    NoticeClaim,
    OpenAlerts,
    Severity,
    due,
    goes_on,
    incident_document,
    incidents,
    is_covered,
    rank,
)
from cronce.protocol.notices import Alert
from cronce.runtime.flow import Flow
from cronce.runtime.log import LOGGER
from cronce.stores import discreet
from cronce.telling.documents import raised_document
from cronce.telling.words import iso, listed, safe, short

RECEIVER_TIMEOUT: Final = 5.0
"""Seconds that a receiver may take for each step of an answer."""

POST_TIMEOUT: Final = 10.0
"""And for all of them together."""

COMMAND_TIMEOUT: Final = 30.0
"""Seconds after which a command is killed."""

CLAIM_SPARE: Final = 20.0
"""Seconds that a claim lasts longer than sending may take: time to record it before another process tries."""

LEVEL_OF_SEVERITY: Final[Mapping[str, int]] = {
    "critical": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
}

Document = dict[str, Any]


class Undelivered(CronceError):
    """A notice that could not be sent, and why: fit for logs."""


@runtime_checkable
class Destination(Protocol):
    """Where to send alerts, from which severity on. `limit` is how many seconds sending may take."""

    @property
    def digest(self) -> str: ...
    @property
    def threshold(self) -> Severity: ...
    @property
    def limit(self) -> float: ...

    def send(self, document: Document) -> None:
        """Raises `Undelivered`, or whatever else went wrong."""
        ...


def reaches(severity: str, threshold: Severity) -> bool:
    """Whether it is as bad as that, or worse. A severity that only a newer cronce knows reaches all."""
    return severity not in SEVERITIES or rank(severity) <= rank(threshold)


# --- what is said -----------------------------------------------------------------------------------------------------


def document(
    alert: Alert, notice: str, store: str, host: str, *, incident: Incident | None = None, page: str = ""
) -> Document:
    """What a receiver is sent: a text for people, as Slack and its like take it, and the facts for programs; with the
    incident that it is part of, and where the page shows that."""
    key = "\n".join((alert.kind, alert.subject, str(iso(alert.since)), store))
    facts = {
        **raised_document(alert),
        "text": discreet(alert.text),
        "remedy": discreet(alert.remedy),
        "until": iso(alert.cleared),
        "state": notice,
        "store": store,
        "host": host,
        "id": blake2b(key.encode(errors="replace"), digest_size=8).hexdigest(),
    }
    whole = incident or Incident((alert,))
    link = f"{page.rstrip('/')}/alerts/{quote(alert.id)}" if page else None
    text = f"{sentence(facts)}{_others(whole, alert)}{f' {link}' if link else ''}"
    return {"text": _plain(text), "alert": facts, "incident": {**incident_document(whole), "link": link}}


def _others(incident: Incident, alert: Alert) -> str:
    """What else is known of it: what follows is not sent by itself."""
    others = [one for one in incident.alerts if one.id != alert.id]
    return f" With it: {listed(safe(discreet(one.id)) for one in others)}." if others and not alert.cleared else ""


def sentence(alert: Mapping[str, Any]) -> str:
    """An alert, or that it is over, in one line."""
    if alert["state"] == "cleared":
        return safe(f"over{_lasted(alert)}: {alert['text']}")
    return safe(f"{alert['severity']}: {alert['text']}{f' {remedy}' if (remedy := alert['remedy']) else ''}")


def _lasted(alert: Mapping[str, Any]) -> str:
    since, until = (alert[name] and datetime.fromisoformat(alert[name]) for name in ("since", "until"))
    return f", after {short(until - since)}" if until and until > since else ""


def _plain(text: str) -> str:
    """Escaped, for receivers that read <!channel> and links out of a text: a job's name must not notify everyone."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- destinations -----------------------------------------------------------------------------------------------------


class LogDestination:
    """The log of the first process that comes to it."""

    digest, threshold, limit = "log", SEVERITIES[-1], RECEIVER_TIMEOUT

    def send(self, document: Document) -> None:
        alert = document["alert"]
        level = (
            logging.INFO if alert["state"] == "cleared" else LEVEL_OF_SEVERITY.get(alert["severity"], logging.WARNING)
        )
        LOGGER.log(level, "%s", sentence(alert), extra={"alert": alert})


class Webhook:
    """A URL that is sent JSON. Redirects are not followed: they could lead the alerts elsewhere."""

    limit = POST_TIMEOUT

    def __init__(self, url: str, threshold: Severity = "warning") -> None:
        self._parts = read_url("an alert", url)
        self.digest, self.threshold = _digest("webhook", url), threshold

    def send(self, document: Document) -> None:
        post(self._parts, json.dumps(document).encode(), "application/json")


class CommandDestination:
    """A program that is given the document on its standard input, and the facts in its environment."""

    limit = COMMAND_TIMEOUT

    def __init__(self, words: Sequence[str], threshold: Severity = "warning") -> None:
        if isinstance(words, str) or not words or not all(isinstance(word, str) and word for word in words):
            raise BadInput("an alert's command must be a list of words: the program and its arguments")
        self._words = list(words)
        self.shown = os.path.basename(words[0])  # noqa: PTH119  it need not be a path
        self.digest, self.threshold = _digest("command", *words), threshold

    def send(self, document: Document) -> None:
        facts = {f"CRONCE_ALERT_{name.upper()}": safe(_in_line(fact)) for name, fact in document["alert"].items()}
        facts["CRONCE_ALERT_LINK"] = document["incident"]["link"] or ""
        try:
            code = self._run(json.dumps(document).encode(), {**os.environ, **facts})
        except OSError as error:
            raise Undelivered(f"{self.shown} cannot be started: {error.strerror}") from None
        if code:
            raise Undelivered(f"{self.shown} ended with exit code {code}")

    def _run(self, given: bytes, env: Mapping[str, str]) -> int:
        with subprocess.Popen(  # noqa: S603  the operator's own words, and no shell
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(given, COMMAND_TIMEOUT)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise Undelivered(f"{self.shown} did not end within {COMMAND_TIMEOUT:g} s, and was killed") from None
            return process.returncode


def _in_line(fact: object) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, list) else str(fact or "")


class Callback:
    """A function of the application, called with the document."""

    limit = COMMAND_TIMEOUT
    threshold: Severity = "warning"

    def __init__(self, fn: Callable[[Document], object]) -> None:
        self._fn = fn
        self.shown = getattr(fn, "__qualname__", type(fn).__name__)
        module = str(getattr(fn, "__module__", None))  # None of what is built in
        self.digest = _digest("callback", module, self.shown)

    def send(self, document: Document) -> None:
        self._fn(document)


Given = str | Sequence[str] | Callable[[Document], object] | Destination


def destination(given: Given) -> Destination:
    """A URL, the words of a command, a function, or what is a destination already."""
    if isinstance(given, str):
        return Webhook(given)
    if isinstance(given, Sequence):
        return CommandDestination(given)
    if isinstance(given, Destination):
        return given
    if callable(given):
        return Callback(given)
    raise BadInput(f"an alert can go to a URL, a command (a list of words) or a function, not to {given!r:.60}")


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(errors="replace"), digest_size=6).hexdigest()


# --- HTTP -------------------------------------------------------------------------------------------------------------


def read_url(what: str, url: str) -> SplitResult:
    """A URL to send something to, checked. No part of it that may be secret is in the error."""
    trouble = "has a space or an unprintable character in it" if not url.isprintable() or " " in url else ""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or "://" not in url:
            trouble = "does not begin with https://"
        elif not parts.hostname or parts.port == 0:
            trouble = "has no host, or a wrong port"
    except ValueError:
        trouble = "cannot be read"
    if trouble:
        raise BadInput(f"{what} needs a URL such as https://host/path, and the given one {trouble}")
    return parts


def shown(parts: SplitResult) -> str:
    """What may be shown of it: the rest is enough to write there."""
    return f"{parts.scheme}://{parts.hostname}"


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post(parts: SplitResult, body: bytes, kind: str) -> None:
    """One POST. A user and password in the URL become a header, as a browser would have it."""
    headers = {"Content-Type": kind, "User-Agent": f"cronce/{__version__}"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    request = Request(place, body, headers, method="POST")  # noqa: S310  the scheme was checked
    trouble = [f"did not answer in full within {POST_TIMEOUT:g} s"]
    # A socket's timeout begins anew with each byte: a receiver that trickles them would be waited for without end.
    asking = threading.Thread(target=lambda: trouble.append(_answered(request)), name="cronce-post", daemon=True)
    asking.start()
    asking.join(POST_TIMEOUT)
    if why := trouble[-1]:
        raise Undelivered(f"{shown(parts)} {why}")


def _answered(request: Request) -> str:
    """What went wrong, if anything did."""
    try:
        with build_opener(_NoRedirect()).open(request, timeout=RECEIVER_TIMEOUT) as answer:
            answer.read(1)
    except HTTPError as error:
        error.close()
        elsewhere = ", a redirect, which is not followed" if 300 <= error.code < 400 else ""
        return f"answered {error.code}{elsewhere}"
    except TimeoutError:
        return f"did not answer within {RECEIVER_TIMEOUT:g} s"
    except (OSError, HTTPException) as error:
        return f"cannot be reached: {_reason(error)}"
    return ""


def _reason(error: BaseException) -> str:
    """In words that cannot hold the URL."""
    cause = getattr(error, "reason", error)
    return (cause.strerror if isinstance(cause, OSError) else None) or type(cause).__name__


# --- sending ----------------------------------------------------------------------------------------------------------

Do = Callable[[Flow[Any]], Any]

NO_RETURN: Final = "it did not return in time"


class Sending(threading.Thread):
    """A notice on its way: what went wrong with it, if anything did, when it has `ended`."""

    def __init__(self, destination: Destination, said: Document, then: Callable[[], None]) -> None:
        super().__init__(name="cronce-notice", daemon=True)
        self._destination, self._said, self._then = destination, said, then
        self.trouble, self.ended = NO_RETURN, False
        self.start()

    def run(self) -> None:
        try:
            self._destination.send(self._said)
            self.trouble = ""
        except Undelivered as error:
            self.trouble = str(error)
        except BaseException as error:  # of a user's function; its text may hold a secret
            self.trouble = discreet(f"{type(error).__name__}: {error}")
        self.ended = True
        self._then()


class Sender:
    def __init__(
        self,
        alerts: Alerts,
        destinations: Mapping[str, Destination],
        *,
        do: Do,
        describe: Callable[[NoticeClaim, Incident], Document],
        boot: Callable[[], Boot],
        wake: Callable[[], None],
    ) -> None:
        self._alerts, self._destinations, self._do = alerts, destinations, do
        self._describe, self._boot, self._wake = describe, boot, wake
        self._under_way: dict[str, tuple[NoticeClaim, Boot, Sending]] = {}
        """By destination; each with the time until which it is waited for."""

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._under_way

    def settle(self, findings: Iterable[Alert], is_over: IsOver, *, anew: bool = False) -> None:
        self._do(self._alerts.settle(findings, is_over, anew=anew))

    def deliver(self) -> OpenAlerts:
        """Record what became of the notices that were sent, and send the next ones; which alerts there are."""
        for to, (claim, until, sending) in list(self._under_way.items()):
            if sending.ended or self._boot() >= until:
                self._do(self._alerts.conclude(claim, to, sent=not sending.trouble))
                del self._under_way[to]
                if sending.trouble:
                    LOGGER.warning("an alert could not be sent, and will be retried: %s", sending.trouble)
        seen: OpenAlerts = self._do(self._alerts.standing())
        for to, destination in self._destinations.items():
            if to not in self._under_way:
                self._send_next(to, destination, seen)
        return seen

    def part(self, alert: Alert, said: Document, seconds: float) -> None:
        """Send this once to the destinations that were told of the alert, and wait no longer than that."""
        told = [to for to, one in alert.deliveries.items() if one.notice == "raised" and to in self._destinations]
        sendings = [Sending(self._destinations[to], said, lambda: None) for to in told]
        until = self._boot() + seconds
        for sending in sendings:
            sending.join(max(until - self._boot(), 0.0))
            if sending.ended and sending.trouble:
                LOGGER.warning("an alert could not be sent: %s", sending.trouble)

    def _send_next(self, to: str, destination: Destination, seen: OpenAlerts) -> None:
        """One message for each incident, and one when all of it is over. Those that go out with another's are noted
        first: once that one is over, nothing shows that it was told."""
        lasting = timedelta(seconds=destination.limit + CLAIM_SPARE)
        of = {one.id: incident for incident in incidents(one.alert for one in seen.posted) for one in incident.alerts}
        wanted = [one for one in seen.posted if reaches(one.alert.severity, destination.threshold)]
        wanted = [one for one in wanted if due(one.alert, to, seen.now) and not goes_on(one.alert, of[one.alert.id])]
        for one in wanted:
            if is_covered(one.alert, of[one.alert.id], to):
                self._do(self._alerts.cover(one.cell.key, to))
        for one in wanted:
            incident = of[one.alert.id]
            claim: NoticeClaim | None = None
            if not is_covered(one.alert, incident, to):
                claim = self._do(self._alerts.claim(one.cell.key, to, lasting))
            if claim is not None:
                until = self._boot() + destination.limit + CLAIM_SPARE / 2
                sending = Sending(destination, self._describe(claim, incident), self._wake)
                self._under_way[to] = claim, until, sending
                return


def told_apart(destinations: Iterable[Destination]) -> dict[str, Destination]:
    """By digest. One that is named twice is one; two functions of one name are two."""
    found: dict[str, Destination] = {}
    for one in destinations:
        digest = one.digest
        while isinstance(one, Callback) and digest in found:
            digest += "+"
        found[digest] = one
    return found

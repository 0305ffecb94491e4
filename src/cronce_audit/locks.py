"""Locks that are made by hand on Redis, and what is done wrong with them: in any language, by its text.

What a file does to one key by one client is compared. Two keys are the same where they are written alike:
`acquire(key)` and `release(key)` of one class mean the same key, as their author does.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.javascript.code import is_packed, wants
from cronce_audit.model import Facts, Found, LockAct, LockCall, Place, Severity, Source, reader, rule
from cronce_audit.python.facts import Bound, Call, Called, Const, Name, Table
from cronce_audit.python.jobs import jobs, seconds_between
from cronce_audit.python.names import Names, names
from cronce_audit.text import Body, body_around, depth

_KEY_CALL: Final = re.compile(
    r"(?P<client>[\w$.]+(?:\(\))?)\.(?P<method>(?i:p?set(?:ex)?|setnx|setifabsent|add|get|exists|del(?:ete)?|unlink"
    r"|p?expire))\((?P<told>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
)
_COMMA: Final = re.compile(r",(?![^{(\[]*[)}\]])")
_NX: Final = re.compile(r"(?i)['\"]nx['\"]|\bnx\s*[:=]\s*true")
_MENTIONS: Final = re.compile(
    _NX.pattern + r"|\.setnx\(|\.setifabsent\(|\bcache\.add\(|\.p?set(?:ex)?\([^,\n]*lock|\block\w*\s*=[^\n]*['\"`]"
)
_EXPIRES: Final = re.compile(
    r"(?i)['\"](?:ex|px)(?:at)?['\"]|"
    r"\b(?:(?:ex|px)(?:at)?|\w*(?:ttl|expir|timeout|second|milli)\w*)\s*[:=](?!\s*(?:none|null))"
)
_OPEN: Final = re.compile(r"\.\.\.|\*\*|^[\w$.]+(?:\(.*\))?$")
"""It may hold more options than we see."""
_ON_SERVER: Final = re.compile(r"(?i)redis|valkey")
LOCKLIKE: Final = re.compile(
    r"(?<![bcBC])(?:[lL]ock|LOCK)|(?<![rR]e)[lL]ease|LEASE|[lL]eader(?!board)|LEADER|[mM]utex|MUTEX"
)
_NO_LOCK: Final = re.compile(r"(?i)lockout|locked|login|attempt")
"""Users are locked out by such keys, not processes."""
_ONE_STEP: Final = re.compile(r"\.(?:watch|eval(?:sha)?)\(|(?i:redis\w*)\.execute\(")
"""With these, reading and deleting can be one step."""
_RELEASES: Final = re.compile(r"(?i)release|unlock|__a?exit__|(?:remove|free|drop|delete)_?lock|^free$")
_BY_HAND: Final = re.compile(r"(?i)force|admin|clear|reset|break")
_CAUGHT: Final = re.compile(r"\s*(?:except\b|\}?\s*catch\b)")
_NEAR_ABOVE: Final = 8
"""Lines above a call in which the name of its function may stand."""
_NEAR_BEFORE: Final = 25
"""Lines between a question and what is done for its answer."""


class _KeyCall(NamedTuple):
    """A method of a client, called with a key."""

    method: str
    client: str
    key: str
    options: tuple[str, ...]
    at: int
    place: Place
    body: Body
    is_caught: bool

    @property
    def takes(self) -> bool:
        return self.method in ("setnx", "setifabsent", "add") or (
            self.method == "set" and bool(_NX.search(", ".join(self.options)))
        )

    @property
    def expires(self) -> bool | None:
        """Whether the lock ends by itself; None where that is not spelled out. The third argument of Python's `set` is
        a time to live; what is added to a cache has one, unless it is said that it has none."""
        told = ", ".join(self.options)
        if _EXPIRES.search(told) or (self.method == "setifabsent" and self.options):
            return True
        if self.method == "add" or (self.options and re.fullmatch(r"\w+", self.options[0]) and "nx=" in told):
            return "None" not in told
        return None if any(map(_OPEN.search, self.options)) else False

    def is_same(self, other: "_KeyCall") -> bool:
        """In another function the client may have another name; what is called a lock is the same one. In Java the
        client that deletes is always another than the one that sets."""
        elsewhere = bool(LOCKLIKE.search(self.key)) and self.body != other.body
        return self.key == other.key and (self.client == other.client or elsewhere or other.method == "setifabsent")


@reader("locks by hand", lambda path: path.suffix in (".java", ".kt", ".py") or wants(path))
def read(source: Source) -> Iterator[LockCall]:
    if not _MENTIONS.search(source.text) or is_packed(source):
        return
    plain = source.bare
    calls = list(_key_calls(plain, source))
    for take in calls:
        if _is_lock(take, plain, source):
            for call, act in _acts(take, [call for call in calls if call.is_same(take)], plain):
                yield LockCall(act, f"`{take.key}`", call.place)


def _key_calls(plain: str, source: Source) -> Iterator[_KeyCall]:
    lines = plain.split("\n")
    for found in _KEY_CALL.finditer(plain):
        key, *options = (one.strip() for one in _COMMA.split(found["told"].rstrip(", \n")))
        client = re.sub(r"^this\.|\.opsFor\w+\(\)$", "", found["client"])
        method, line = found["method"].lower(), plain.count("\n", 0, found.start())
        place = source.place(line + 1, found.start() - plain.rfind("\n", 0, found.start()))
        if method != "add" or client.lower().endswith("cache"):
            body = body_around(lines, line) or Body("", 0, len(lines))
            yield _KeyCall(method, client, key, tuple(options[1:]), found.start(), place, body, _is_caught(lines, line))


def _is_caught(lines: Sequence[str], at: int) -> bool:
    """Whether a line stands right below `except` or `catch`."""
    deep = depth(lines[at])
    above = (line for line in reversed(lines[:at] if deep else ()) if line.strip() and depth(line) < deep)
    return bool(_CAUGHT.match(next(above, "")))


def _acts(take: _KeyCall, same: Sequence[_KeyCall], plain: str) -> Iterator[tuple[_KeyCall, LockAct]]:
    """What is done wrong with one lock. Where it never ends, nobody else can have it, so it may be freed unasked."""
    freed = [call for call in same if call.method in ("del", "delete", "unlink") and _is_release(call, take)]
    renewed = [call for call in same if call.method in ("expire", "pexpire")]
    if not take.takes:
        asked = [call for call in same if call.method in ("get", "exists") and call.at < take.at]
        near = [call for call in asked[-1:] if take.place.line - call.place.line <= _NEAR_BEFORE]
        on_server = take.method == "set" and (_ON_SERVER.search(take.client) or take.expires)
        is_set = (on_server or take.method in ("setex", "psetex")) and LOCKLIKE.search(_own_words(take, plain))
        yield from ((call, "ask and take") for call in near if is_set)
    elif take.expires is False and (freed or take.method != "setifabsent"):
        if not renewed or not re.search(r"\b(?:pipeline|multi)\(", take.body.text(plain)):
            yield take, "take in two steps" if renewed else "take for ever"
    elif take.expires:
        if any("finally" in plain[take.at : call.at] for call in freed):
            yield take, "end with the run"
        yield from ((call, "free") for call in freed if not _is_one_step(call, plain))
        yield from ((call, "renew") for call in renewed if not _is_one_step(call, plain))


def _is_release(call: _KeyCall, take: _KeyCall) -> bool:
    """Not every delete of a key gives a lock back: it may be somebody who clears up by hand, or who takes a mark back
    because the work failed."""
    if _BY_HAND.search(call.body.name) or call.is_caught:
        return False
    behind = take.body.start < call.place.line <= take.body.end and call.at > take.at
    return bool(_RELEASES.search(call.body.name)) or behind


def _is_one_step(call: _KeyCall, plain: str) -> bool:
    return bool(_ONE_STEP.search(call.body.text(plain))) or ".register_script(" in plain


def _is_lock(take: _KeyCall, plain: str, source: Source) -> bool:
    """The key says so, or the text it was made of, or its function, or the lines above it."""
    own, above = _own_words(take, plain), plain[: take.at].split("\n")[-_NEAR_ABOVE:]
    file = source.name if PurePosixPath(source.path).suffix in (".java", ".kt") else ""
    return bool(LOCKLIKE.search(" ".join((own, file, *above)))) and not _NO_LOCK.search(own)


def _own_words(take: _KeyCall, plain: str) -> str:
    made = re.search(rf"\b{re.escape(take.key.removeprefix('this.'))}\s*=(?!=)(.*)", plain)
    return " ".join((take.key, made[1] if made else "", take.body.name))


_TEXTS: Final[Mapping[LockAct, str]] = {
    "free": "is deleted without a check, in the same step, of its holder: if it expired meanwhile, this deletes another"
    " process's lock, and a third gets in",
    "take for ever": "never expires: after a crash no process gets it again, and the job stops running",
    "take in two steps": "gets its time to live by a second command: a crash in between leaves it for ever",
    "ask and take": "is read here, and set by a second command: two processes that ask at the same time both find it"
    " free, and go on",
    "renew": "is extended without a check, in the same step, of its holder: a process that lost it extends another's"
    " lock, and goes on",
    "end with the run": "is released when the job ends: it keeps two runs apart, but does not make a slot run once; a"
    " process that starts after a short run repeats it",
}


def told(facts: Facts, *acts: LockAct) -> Iterator[Found]:
    for call in facts.of(LockCall):
        if call.act in acts:
            yield Found(call.place, f"the lock {call.key} {_TEXTS[call.act]}")


@rule(
    "CR301 lock-released-by-anyone",
    Severity.INFO,
    "compare and delete in one step, with a value that only this process has: a script by `eval`, or redis-py's"
    " `client.lock(name, timeout=…)`; or `cron.lock(name)` of cronce, whose release names the fence",
)
def _released(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "free")
    yield from (each._replace(remedy=_RENEW) for each in told(facts, "renew"))


_RENEW: Final = (
    "check that the lock is still yours and renew it, in one step: a script by `eval`, or redis-py's"
    " `lock.reacquire()`; cronce renews under the run's fence, and stops the run when it is lost"
)


@rule(
    "CR302 lock-without-expiry",
    Severity.WARNING,
    "give it a time to live in the same command (`SET key value NX EX seconds`), and renew it while the job works; "
    "cronce's leases are short and renewed",
)
def _for_ever(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "take for ever", "take in two steps")
    known = facts.conclude(names)
    for call in known.calls("lock", "Lock"):
        if _is_clients_lock(call, known) and not _has_timeout(call.called):
            yield Found(
                call.place,
                "this lock has no timeout: after a crash no process gets it again, and the job stops running",
                remedy="`client.lock(name, timeout=seconds)`, renewed by `lock.reacquire()` while the job works",
            )


_LOCAL_CACHES: Final = ("LocMemCache", "DummyCache")


def excludes_no_other(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "ask and take")
    local, known = facts.conclude(_local_cache), facts.conclude(names)
    for call in known.calls("add") if local else ():
        named = f"{call.scope.function} {call.called.args}"
        if known.target(call) == "django.core.cache.cache.add" and LOCKLIKE.search(named):
            yield Found(
                call.place,
                f"this lock is kept in Django's default cache, which is in the memory of the process ({local}): each"
                " worker has its own, and gets it",
            )


def _local_cache(facts: Facts) -> Place | None:
    """Where CACHES says that the default one is in memory; None where any of the settings says otherwise."""
    said = [bound for bound in facts.of(Bound) if bound.name.endswith(".CACHES")]
    default = [each.value.get("default") if isinstance(each.value, Table) else None for each in said]
    backends = [each.get("BACKEND") if isinstance(each, Table) else None for each in default]
    local = [isinstance(one, Const) and str(one.value).endswith(_LOCAL_CACHES) for one in backends]
    return said[0].place if local and all(local) else None


@rule(
    "CR306 lock-outlives-the-interval",
    Severity.INFO,
    "let it expire a little before the next run; or better, make it short and renew it while the job works",
)
def _outlives(facts: Facts) -> Iterator[Found]:
    lives = facts.conclude(_lives)
    for job in facts.conclude(jobs):
        every = seconds_between(job) or 0
        for place, life in lives.get(job.full_name, ()):
            if 0 < every < life:
                yield Found(
                    place,
                    f"this lock lives for {life:g} s, and its job is due every {every:g} s ({job.place}): after a "
                    f"crash the next {int(life // every)} find it taken, and are lost",
                )


def _lives(facts: Facts) -> Mapping[str, Sequence[tuple[Place, float]]]:
    """For how many seconds the locks in each function live, where that is spelled out."""
    known = facts.conclude(names)
    found: dict[str, list[tuple[Place, float]]] = defaultdict(list)
    timed = [(call, {"ex": 1.0, "px": 0.001}) for call in known.calls("set") if is_nx(call.called)]
    timed += [(call, {"timeout": 1.0}) for call in known.calls("lock") if _is_clients_lock(call, known)]
    for call, units in timed:
        for name, unit in units.items():
            life = known.constant(call.called.keyword(name), call.scope.module)
            if isinstance(life, int | float):
                found[call.scope.function].append((call.place, life * unit))
    return found


def is_nx(called: Called) -> bool:
    """`set(key, value, nx=True)` of a client of Redis."""
    return called.keyword("nx") == Const(value=True)


_CLIENTS: Final = ("redis.", "valkey.", "aioredis.", "fakeredis.", "coredis.")


def _is_clients_lock(call: Call, known: Names) -> bool:
    if call.method == "Lock":
        return known.target(call).startswith(_CLIENTS) and call.called.args != ()
    return any(kind.startswith(_CLIENTS) for kind in known.kinds(call.receiver, call.scope.module))


def _has_timeout(called: Called) -> bool:
    """`lock(name, timeout)` of a client, `Lock(client, name, timeout)` of its class."""
    plain = 1 if isinstance(called.function, Name) and called.function.last == "lock" else 2
    given = called.keyword("timeout") or (called.args[plain] if len(called.args) > plain else None)
    return called.splat or given not in (None, Const(None))

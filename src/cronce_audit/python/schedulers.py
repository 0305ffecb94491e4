"""The names of APScheduler, and of the packages that put it into Flask, Django and NoneBot."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cronce_audit.model import Facts, Place
from cronce_audit.python.facts import UNKNOWN, Bound, Call, Called, Class, Const, Member, Name, Table, Typed, Value
from cronce_audit.python.names import Names, names

_KINDS: Final = ("Base", "Background", "Blocking", "AsyncIO", "Gevent", "Tornado", "Twisted", "Qt")
SCHEDULERS_3: Final = frozenset(
    {
        *(f"apscheduler.schedulers.{module.lower()}.{name}Scheduler" for module in _KINDS for name in _KINDS),
        "apscheduler.scheduler.Scheduler",
    }
)
"""Each from its module, or from another that imports it: `from apscheduler.schedulers.background import
BlockingScheduler` works."""
FLASK: Final = frozenset({"flask_apscheduler.APScheduler", "flask_apscheduler.scheduler.APScheduler"})
FLASK_KINDS: Final = frozenset(name.rpartition(".")[2] for name in FLASK)
"""As a Scheduler calls its kind."""
SCHEDULERS: Final = SCHEDULERS_3 | FLASK
INSTANCES: Final = frozenset({"nonebot_plugin_apscheduler.scheduler"})
"""Schedulers that a package makes: how they are set up stands in a file that is not Python."""

MEMORY: Final = frozenset({"apscheduler.jobstores.memory.MemoryJobStore", "memory"})
PERSISTENT: Final = {
    **{
        f"apscheduler.jobstores.{module}.{name}JobStore": f"{name}JobStore"
        for module, name in (
            ("sqlalchemy", "SQLAlchemy"), ("redis", "Redis"), ("mongodb", "MongoDB"), ("zookeeper", "ZooKeeper"),
            ("rethinkdb", "RethinkDB"), ("etcd", "Etcd"), ("shelve", "Shelve"),
        )
    },
    "django_apscheduler.jobstores.DjangoJobStore": "DjangoJobStore",
    "sqlalchemy": "SQLAlchemyJobStore", "redis": "RedisJobStore", "mongodb": "MongoDBJobStore",
    "zookeeper": "ZooKeeperJobStore", "rethinkdb": "RethinkDBJobStore", "etcd": "EtcdJobStore",
}  # fmt: skip
"""Job stores that outlive the process, by class or by the alias of their plugin."""

CRON: Final = "apscheduler.triggers.cron.CronTrigger"
TRIGGERS: Final = {
    CRON: "cron",
    f"{CRON}.from_crontab": "crontab",
    "apscheduler.triggers.interval.IntervalTrigger": "interval",
    "apscheduler.triggers.date.DateTrigger": "date",
}

ADD_JOB: Final = (
    "func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances",
    "next_run_time", "jobstore", "executor", "replace_existing",
)  # fmt: skip
"""The positional parameters of add_job; scheduled_job has the same without the first and the last."""
REGISTER_JOB: Final = frozenset({"django_apscheduler.jobstores.register_job"})


_PREFIX = "apscheduler."


class Options(NamedTuple):
    """What is set, and whether that is all."""

    pairs: tuple[tuple[str, Value], ...] = ()
    open: bool = False
    """More may be set than is seen."""

    def get(self, key: str) -> Value | None:
        """None if it is not set, UNKNOWN if that cannot be told."""
        for name, value in reversed(self.pairs):
            if name == key:
                return value
        return UNKNOWN if self.open else None

    def below(self, key: str) -> "Options":
        """What is set in the dict that an option is, and under its dotted keys: `jobstores.default`."""
        dotted = tuple(
            (name.removeprefix(f"{key}."), value) for name, value in self.pairs if name.startswith(f"{key}.")
        )
        whole = self.get(key)
        if whole is None:
            return Options(dotted)
        inner = of_table(whole)
        return Options((*inner.pairs, *dotted), inner.open)


def of_table(value: Value) -> Options:
    """Of a value that was followed to its origin."""
    if not isinstance(value, Table):
        return Options((), open=True)
    named = tuple(
        (key.value, each) for key, each in value.pairs if isinstance(key, Const) and isinstance(key.value, str)
    )
    return Options(named, value.splat or len(named) < len(value.pairs))


def of_configuring(called: Called, known: Names, near: str) -> Options:
    """Of `BackgroundScheduler({...}, jobstores=...)` and of `configure`, which take the same."""
    pairs = [(key, known.origin(value, near)) for key, value in called.keywords if key not in ("gconfig", "prefix")]
    given = called.args[0] if called.args else called.keyword("gconfig")
    if given is None:
        return Options(tuple(pairs), called.splat)
    table = of_table(known.origin(given, near))
    stripped = [(key.removeprefix(_PREFIX), value) for key, value in table.pairs if key.startswith(_PREFIX)]
    return Options((*stripped, *pairs), called.splat or table.open)


def joined(several: Sequence[Options]) -> Options:
    return Options(tuple(pair for each in several for pair in each.pairs), any(each.open for each in several))


def number(value: Value | None) -> float | None:
    """Of an option that is a number, or a string of digits from an ini file; None where it is none, or unknown."""
    match value:
        case Const(bool()):
            return None
        case Const(int(plain) | float(plain)):
            return plain
        case Const(str(text)) if text.strip().isdigit():
            return int(text)
    return None


def is_false(value: Value | None) -> bool:
    """As APScheduler reads it."""
    match value:
        case Const(bool(plain)):
            return not plain
        case Const(str(text)):
            return text.strip().lower() in ("false", "no", "off", "n", "f", "0")
    return False


class Store(NamedTuple):
    """A job store."""

    kind: str
    """`SQLAlchemyJobStore`; "" is memory."""
    url: str
    """Of a database, as far as it is spelled out; it may hold a password and is never told."""
    place: Place

    @property
    def is_persistent(self) -> bool:
        return bool(self.kind)


class Scheduler(NamedTuple):
    """A scheduler, and what it is set up with."""

    kind: str
    """`BackgroundScheduler`."""
    place: Place
    module: str
    stores: tuple[tuple[str, Store | None], ...]
    """By alias; None is a store of an unknown kind."""
    all_stores_seen: bool
    options: Options
    """As it is made and configured."""

    def store(self, alias: str) -> Store | None:
        """None where it is unknown. The one that is not given is in memory."""
        for name, store in self.stores:
            if name == alias:
                return store
        return Store("", "", self.place) if self.all_stores_seen else None

    @property
    def defaults(self) -> Options:
        return self.options.below("job_defaults")


class Schedulers:
    """The schedulers of a tree, and which of them a value is."""

    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._names: Final[Names] = facts.conclude(names)
        self._touched: Final = self._by_place()
        self.all: Final = list(self._made())
        self._at: Final = {scheduler.place: scheduler for scheduler in self.all}

    def of(self, value: Value) -> Scheduler | None:
        """The scheduler that a value, followed to its origin, is. One that is only known by its class is the one of
        that class, if the tree makes no other."""
        match value:
            case Called(_, _, _, _, place) if place in self._at:
                return self._at[place]
            case Member(Called(_, _, _, _, place), "scheduler" | "_scheduler") if place in self._at:
                return self._at[place]
            case Typed() if kinds := SCHEDULERS & set(self._names.kinds(value)):
                return self.all[0] if len(self.all) == 1 else _unseen(sorted(kinds)[0])
            case Name(dotted) if dotted in INSTANCES:
                return _unseen(dotted)
            case Name(dotted) if self._names.klass(dotted):
                return self.of(Typed(value))  # `self`, in a class that is one
        return None

    def _by_place(self) -> Mapping[Place, list[Call]]:
        """The calls that set a scheduler up, by where it is made."""
        found: dict[Place, list[Call]] = defaultdict(list)
        for call in self._names.calls("configure", "add_jobstore", "__init__", "init_app"):
            match self._names.receiver(call):
                case Called(_, _, _, _, place):
                    found[place].append(call)
        return found

    def _made(self) -> Iterator[Scheduler]:
        words = {name.rpartition(".")[2] for name in SCHEDULERS}
        words |= {each.name.rpartition(".")[2] for each in self._facts.of(Class) if self._is_scheduler(each)}
        for call in self._names.calls(*sorted(words)):
            kinds = self._names.kinds(self._names.origin(call.called, call.scope.module))
            if SCHEDULERS & set(kinds):
                yield self._scheduler(call, kinds)

    def _is_scheduler(self, each: Class) -> bool:
        return bool(SCHEDULERS & set(self._names.kinds(Typed(Name(each.name)))))

    def _scheduler(self, call: Call, kinds: list[str]) -> Scheduler:
        library = next(kind for kind in kinds if kind in SCHEDULERS)
        near = call.scope.module
        options = [of_configuring(call.called, self._names, near)]
        stores: list[tuple[str, Store | None]] = []
        for other in self._touched.get(call.place, ()):
            if other.method == "configure":
                options.append(of_configuring(other.called, self._names, other.scope.module))
            elif other.method == "add_jobstore":
                stores.append(self._added(other))
        if library in FLASK:
            options.append(self._of_flask())
        whole = joined(options)
        given = whole.below("jobstores")
        own_setup = kinds[0] not in SCHEDULERS
        aliases = dict.fromkeys(key.partition(".")[0] for key, _ in given.pairs)
        stores += [(alias, self._store(_one_store(given, alias), near, call.place)) for alias in aliases]
        return Scheduler(
            kinds[0].rpartition(".")[2],
            call.place,
            near,
            tuple(stores),
            not (given.open or own_setup),
            Options(whole.pairs, whole.open or own_setup),
        )

    def _of_flask(self) -> Options:
        """SCHEDULER_JOBSTORES and its like, of an app's config or of a class that it is made from."""
        found = [
            (key, self._names.origin(bound.value, bound.scope.module))
            for bound in self._facts.of(Bound)
            for name, key in _FLASK.items()
            if bound.name.endswith((f".{name}", f"[{name}]"))
        ]
        return Options(tuple(found))

    def _added(self, call: Call) -> tuple[str, Store | None]:
        called, near = call.called, call.scope.module
        alias_value = called.args[1] if len(called.args) > 1 else called.keyword("alias")
        alias = "default" if alias_value is None else self._names.constant(alias_value, near)
        first = called.args[0] if called.args else called.keyword("jobstore")
        store = None if first is None else self._store(first, near, call.place)
        if (
            store is not None
            and not store.url
            and isinstance(url := self._names.constant(called.keyword("url"), near), str)
        ):
            store = store._replace(url=url)
        return alias if isinstance(alias, str) else "", store

    def _store(self, value: Value, near: str, place: Place) -> Store | None:
        """None where its kind is not known."""
        match self._names.origin(value, near):
            case Const(str(alias)):
                return _store_of(alias, Options(), self._names, near, place)
            case Table() as table:
                options = of_table(table)
                kind = self._names.constant(options.get("type") or options.get("class"), near)
                text = kind.replace(":", ".") if isinstance(kind, str) else ""
                return _store_of(text, options, self._names, near, place)
            case Called(_, args, keywords, splat, made) as called:
                options = Options((*zip(("url",), args, strict=False), *keywords), splat)
                found = (_store_of(kind, options, self._names, near, made) for kind in self._names.kinds(called, near))
                return next((store for store in found if store is not None), None)
        return None


_FLASK: Final = {
    "SCHEDULER_JOBSTORES": "jobstores",
    "SCHEDULER_JOB_DEFAULTS": "job_defaults",
    "SCHEDULER_TIMEZONE": "timezone",
}


def _one_store(given: Options, alias: str) -> Value:
    """As it stands there, or spread over dotted keys: `jobstores.default.type`."""
    spread = given.below(alias)
    return dict(given.pairs).get(alias) or Table(tuple((Const(key), value) for key, value in spread.pairs))


def _store_of(kind: str, options: Options, known: Names, near: str, place: Place) -> Store | None:
    if kind in MEMORY:
        return Store("", "", place)
    if kind not in PERSISTENT:
        return None
    url = known.constant(options.get("url"), near)
    if isinstance(url, str) and _IN_MEMORY.search(url):
        return Store("", "", place)
    return Store(PERSISTENT[kind], url if isinstance(url, str) else "", place)


_IN_MEMORY: Final = re.compile(r"^sqlite[\w+]*:(///?$|.*(:memory:|mode=memory))")


def _unseen(kind: str) -> Scheduler:
    short = kind.rpartition(".")[2]
    return Scheduler(short, Place("", 0), "", (), all_stores_seen=False, options=Options((), open=True))


def schedulers(facts: Facts) -> Schedulers:
    """For `facts.conclude(schedulers)`."""
    return Schedulers(facts)

"""Which store, trigger and policies to choose: a few answers in, a recommendation with reasons out.

The rules are data: a list for each choice. The first rule whose conditions hold is taken, and the last one has none, so
every combination of answers has a recommendation. A later list can refer to the choices of earlier ones.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal, NamedTuple

from cronce.schedule import format_duration

Server = Literal["postgres", "mysql", "redis", "etcd"]
Provider = Literal["own", "aws", "gcp", "azure", "kubernetes"]
Cost = Literal["nothing", "trouble", "money"]

RUNS_PER_PROCESS: Final = 10
"""Runs at once in one process, by default."""
MAX_HAND_WRITTEN_JOBS: Final = 50
"""Jobs. Beyond this, crontabs and manifests are too long to read."""
FAST: Final = 100
"""Slots a second. Beyond this, a store in memory may be worth its risk."""


class Answers(NamedTuple):
    """A person's answers about their jobs and machines."""

    stores: frozenset[Server] = frozenset()
    provider: Provider = "own"
    machines: int = 3
    jobs: int = 10
    every: timedelta = timedelta(minutes=15)
    runs_for: timedelta = timedelta(minutes=1)
    failure_costs: Cost = "trouble"
    idempotent: bool = False
    add_server: bool = True
    """Whether one more server to operate is acceptable."""


class GuideRule(NamedTuple):
    choice: str
    when: Mapping[str, str]
    """Facts that must hold, or choices made before."""
    because: str
    but: str = ""
    """What it costs."""


class Snippet(NamedTuple):
    language: Literal["sh", "python"]
    text: str


class Advice(NamedTuple):
    store: GuideRule
    trigger: GuideRule
    effects: GuideRule
    on_lost: GuideRule
    overlap: GuideRule
    timeout: str
    install: str
    notes: list[str]
    snippet: Snippet


GUIDE_RULES: Final[Mapping[str, tuple[GuideRule, ...]]] = {
    "store": (
        GuideRule(
            "sqlite",
            {"machines": "one"},
            "one machine: a file serves all its processes, and there is nothing to operate",
            "a second machine needs a database server; then you change the URL",
        ),
        GuideRule(
            "redis",
            {"redis": "at hand", "rate": "high", "cost": "nothing"},
            f"more than {FAST} slots a second, and a duplicate costs nothing: Redis claims them fastest",
            "a failover may lose the last second, and a slot may then run twice; min_replicas makes that less likely",
        ),
        GuideRule(
            "postgresql",
            {"postgres": "at hand"},
            "you have PostgreSQL, and it is durable: it never loses a claim that it confirmed",
        ),
        GuideRule("mysql", {"mysql": "at hand"}, "you have MySQL or MariaDB, and it is durable"),
        GuideRule(
            "etcd",
            {"etcd": "at hand", "rate": "low"},
            "you have etcd, and it loses no claim when a minority of its members fails",
            "it is made for little data: keep the history short with --keep",
        ),
        GuideRule(
            "redis",
            {"redis": "at hand"},
            "you have Redis, and another server would be one more to operate",
            "it must not lose data: appendonly yes, no eviction, min_replicas; `cronce doctor` checks that. Even"
            " so a failover may lose the last second",
        ),
        GuideRule(
            "etcd",
            {"etcd": "at hand", "add_server": "no"},
            "you have etcd, and no other server may be added",
            f"it is made for small data, and more than {FAST} slots a second are a lot for it: keep the"
            " history short with --keep",
        ),
        GuideRule(
            "kubernetes",
            {"platform": "kubernetes", "idempotent": "yes", "rate": "low", "times": "cron's"},
            "the cluster's own Lease objects are enough for slots, locks and leaders: nothing to add",
            "one slot for each job at a time, and no history and no effects by key",
        ),
        GuideRule(
            "postgresql",
            {"add_server": "yes"},
            "several machines need a store that all of them reach; a small PostgreSQL can do everything",
            "a server to operate, or to rent",
        ),
        GuideRule(
            "kubernetes",
            {"platform": "kubernetes"},
            "no server may be added, and the cluster's own Lease objects are there",
            "one slot for each job at a time, and no history and no effects by key: the system that the job"
            " calls must support keys",
        ),
        GuideRule(
            "sqlite",
            {},
            "several machines, nothing that they share, and no server may be added: let one of them run the jobs",
            "while that machine is down, nothing runs; no other machine may have these jobs",
        ),
    ),
    "trigger": (
        GuideRule(
            "queue",
            {"load": "heavy", "store": "not kubernetes"},
            f"more than {RUNS_PER_PROCESS} runs at once on each machine:"
            " let a few processes schedule, and many run the jobs",
            "two kinds of processes to deploy; a queue that you have (Celery, RQ, Dramatiq) can be the second",
        ),
        GuideRule(
            "cronjob",
            {"platform": "kubernetes", "times": "cron's", "jobs": "few"},
            "Kubernetes starts, retries and isolates each run; the claim inside the pod makes it one for each slot,"
            " which Forbid alone does not",
            "a pod has to start for each slot, which takes seconds",
        ),
        GuideRule(
            "crontab",
            {"times": "cron's", "jobs": "few", "platform": "machines"},
            "few jobs, at times that cron can express: `cronce exec` before the command guards what you have",
            "what was missed while all machines were down is not caught up",
        ),
        GuideRule(
            "scheduler",
            {},
            "many jobs, or times that cron cannot express: start the scheduler in as many processes as you like",
            "the jobs are Python, or live in the store (`cronce jobs add`)",
        ),
    ),
    "effects": (
        GuideRule(
            "none",
            {"idempotent": "yes", "cost": "nothing"},
            "a second run does no harm",
        ),
        GuideRule(
            "key",
            {"store": "kubernetes"},
            "the system that the job calls gets the slot's key, CRONCE_KEY, and refuses a repeat",
            "the other side must support keys",
        ),
        GuideRule(
            "key",
            {"idempotent": "yes"},
            "a second protection: pass CRONCE_KEY (run.key) to what the job calls, and a repeat is recognised"
            " there, too",
        ),
        GuideRule(
            "key",
            {"runs": "commands"},
            "the command finds the slot's key in CRONCE_KEY: pass it to the system that it calls, which then"
            " refuses a repeat",
            "the next slot has another key, and the other side must support keys; for an effect that must happen"
            " once per thing, such as an invoice, write the job in Python with run.on(...).once(...)",
        ),
        GuideRule(
            "steps",
            {},
            "not idempotent: run.on('invoice', id).once('charge', ...) charges an invoice once, in all slots together",
            "two writes to the store for each effect; an interrupted effect is in doubt, and a person decides",
        ),
    ),
    "on_lost": (
        GuideRule(
            "rerun",
            {"idempotent": "yes"},
            "a run whose machine died is taken over by another: it may be repeated",
            "work that was done before the crash is done again",
        ),
        GuideRule(
            "rerun",
            {"effects": "steps", "cost": "money"},
            "a run whose machine died is taken over, and continues after the steps that were done",
            "everything that matters must be in steps",
        ),
        GuideRule(
            "skip",
            {"store": "kubernetes"},
            "a run whose machine died is closed as lost and raises an alert; cronce does not repeat it",
            "a person has to check it (`cronce why`) and do the rest by hand: `cronce rerun` needs a store with a"
            " history",
        ),
        GuideRule(
            "skip",
            {},
            "a run whose machine died is closed as lost and raises an alert; cronce does not repeat it",
            "a person has to check it (`cronce why`), and run it again if that is right (`cronce rerun`)",
        ),
    ),
    "overlap": (
        GuideRule(
            "wait",
            {"length": "long", "cost": "money", "store": "not kubernetes"},
            "a run may last into the next slot, and each slot counts: the next one waits for its turn",
            "if that happens often, a backlog grows",
        ),
        GuideRule(
            "skip",
            {"length": "long"},
            "a run may last into the next slot, which is then skipped, with that reason on record",
            "fewer slots run than fall due; run it less often, or make it faster",
        ),
        GuideRule("skip", {}, "no two runs of a job at a time"),
    ),
}

NOTES: Final[Mapping[tuple[str, str], str]] = {
    ("aws", "postgresql"): "on AWS: RDS or Aurora PostgreSQL, multi-AZ",
    ("aws", "mysql"): "on AWS: RDS or Aurora MySQL, multi-AZ",
    ("aws", "redis"): "on AWS: MemoryDB does not forget; ElastiCache may, at a failover",
    ("gcp", "postgresql"): "on Google Cloud: Cloud SQL for PostgreSQL, with high availability",
    ("gcp", "mysql"): "on Google Cloud: Cloud SQL for MySQL, with high availability",
    ("gcp", "redis"): "on Google Cloud: Memorystore keeps little through a failover; Cloud SQL keeps all",
    ("azure", "postgresql"): "on Azure: Azure Database for PostgreSQL, zone redundant",
    ("azure", "mysql"): "on Azure: Azure Database for MySQL, zone redundant",
    ("azure", "redis"): "on Azure: Azure Cache for Redis with persistence, which its Basic tier lacks",
    ("kubernetes", "postgresql"): "in the cluster: the URL from a Secret, as CRONCE_URL",
}

URLS: Final[Mapping[str, str]] = {
    "sqlite": "sqlite:///cronce.db",
    "postgresql": "postgresql://USER:PASSWORD@HOST/DATABASE",
    "mysql": "mysql://USER:PASSWORD@HOST/DATABASE",
    "redis": "redis://:PASSWORD@HOST:6379/0",
    "etcd": "etcd://HOST:2379",
    "kubernetes": "kubernetes://default",
}
_EXTRAS: Final[Mapping[str, str]] = {"sqlite": "", "postgresql": "[postgres]", "etcd": ""}


def advise(answers: Answers) -> Advice:
    facts = facts_of(answers)
    chosen: dict[str, GuideRule] = {}
    for facet, rules in GUIDE_RULES.items():
        rule = chosen[facet] = next(rule for rule in rules if _holds(rule, facts))
        facts[facet] = rule.choice
        facts["runs"] = "commands" if facts.get("trigger") in ("crontab", "cronjob") else "python"
    store = chosen["store"].choice
    timeout = format_duration(max(3 * answers.runs_for, timedelta(minutes=1)))
    return Advice(
        **chosen,
        timeout=timeout,
        install=f"pip install 'cronce{_EXTRAS.get(store, f'[{store}]')}'",
        notes=_notes(answers, store),
        snippet=_snippet({facet: rule.choice for facet, rule in chosen.items()}, timeout, answers.every),
    )


def facts_of(answers: Answers) -> dict[str, str]:
    """What rules can refer to. In Kubernetes one pod counts as several machines: it may be replaced on another."""
    in_kubernetes = answers.provider == "kubernetes"
    busy = answers.jobs * min(answers.runs_for / answers.every, 1) / answers.machines  # one run of a job at a time
    return {
        **dict.fromkeys(answers.stores, "at hand"),
        "machines": "one" if answers.machines == 1 and not in_kubernetes else "several",
        "platform": "kubernetes" if in_kubernetes else "machines",
        "rate": "high" if answers.jobs / answers.every.total_seconds() > FAST else "low",
        "load": "heavy" if busy > RUNS_PER_PROCESS else "light",
        "jobs": "few" if answers.jobs <= MAX_HAND_WRITTEN_JOBS else "many",
        "times": "cron's" if expression(answers.every) else "others",
        "length": "long" if answers.runs_for >= answers.every else "short",
        "cost": answers.failure_costs,
        "idempotent": "yes" if answers.idempotent else "no",
        "add_server": "yes" if answers.add_server else "no",
    }


def expression(every: timedelta) -> str:
    """An interval as a cron expression; "" where cron cannot express it. Daily and rarer jobs run at three."""
    minutes, odd = divmod(every, timedelta(minutes=1))
    hours, past = divmod(minutes, 60)
    if odd or not minutes or (hours and past):
        return ""
    if not hours:
        return f"*/{minutes} * * * *" if 60 % minutes == 0 else ""
    if hours < 24:
        return f"0 */{hours} * * *" if 24 % hours == 0 else ""
    return {24: "0 3 * * *", 7 * 24: "0 3 * * MON"}.get(hours, "")


def _holds(rule: GuideRule, facts: Mapping[str, str]) -> bool:
    return all(
        facts.get(fact) != value.removeprefix("not ") if value.startswith("not ") else facts.get(fact) == value
        for fact, value in rule.when.items()
    )


def _notes(answers: Answers, store: str) -> list[str]:
    named = NOTES.get((answers.provider, store))
    always = (
        "always: run `cronce doctor` on every machine, `cronce why JOB` when in doubt, and set an alert for lost runs"
    )
    return [note for note in (named, always) if note]


# --- a snippet that runs ----------------------------------------------------------------------------------------------

_COMMAND_SNIPPET: Final = """\
{store}command="$(command -v cronce) exec my-job --schedule '{cron}'{options} -- echo 'your command'"
sh -c "$command"
cronce deploy crontab install --dry-run "{cron} $command"
"""
_URL_IN_ENVIRONMENT: Final = """\
export CRONCE_URL={url}
# cron does not see this variable: write the same into /etc/cronce.toml, as url = "…"
"""
_BEGUN: Final = "cronce store init  # once, before the first job\n"
_CRONJOB: Final = """\
{store}
cronce deploy k8s cronjob my-job --image your/image:1{named} --schedule '{cron}'{options} -- echo 'your command' \\
    | kubectl apply -f -
"""
_BEGUN_BY_URL: Final = "# CRONCE_URL='{url}' cronce store init  # once, before the first job\n"
_BY_URL: Final = "# kubectl create secret generic cronce --from-literal=url='{url}'"
_BY_LEASES: Final = "cronce deploy k8s rbac | kubectl apply -f -"
_PYTHON: Final = """\
from cronce import Cronce

cron = Cronce("{url}")


def charge(invoice):
    print("charging", invoice)


@cron.job({when}{policies})
def my_job(run):
    for invoice in (7, 8, 9):
        {call}


if __name__ == "__main__":
    cron.run(){roles}
"""
_ROLES: Final = "  # as app.py: `cronce run app:cron --role schedule` on two machines, `--role work -n 4` on the others"


def _snippet(chosen: Mapping[str, str], timeout: str, every: timedelta) -> Snippet:
    url, cron = URLS[chosen["store"]], expression(every)
    options = f" --on-lost {chosen['on_lost']} --overlap {chosen['overlap']} --timeout {timeout}"
    match chosen["trigger"]:
        case "crontab":
            named = (
                "" if chosen["store"] == "sqlite" else _URL_IN_ENVIRONMENT.format(url=url)
            )  # the default file is right
            begun = _BEGUN if chosen["store"] == "redis" else ""
            return Snippet("sh", _COMMAND_SNIPPET.format(store=f"{named}{begun}", cron=cron, options=options))
        case "cronjob":
            leases = chosen["store"] == "kubernetes"
            store, named = (_BY_LEASES, f" --store {url}") if leases else (_BY_URL.format(url=url), "")
            begun = _BEGUN_BY_URL.format(url=url) if chosen["store"] == "redis" else ""
            return Snippet("sh", _CRONJOB.format(store=f"{begun}{store}", named=named, cron=cron, options=options))
        case trigger:
            return Snippet("python", _application(chosen, timeout, every, _ROLES if trigger == "queue" else ""))


def _application(chosen: Mapping[str, str], timeout: str, every: timedelta, roles: str) -> str:
    cron = expression(every)
    when = f'"{cron}"' if cron else f'every="{format_duration(every)}"'
    policies = f', on_lost="{chosen["on_lost"]}", overlap="{chosen["overlap"]}", timeout="{timeout}"'
    once = 'run.on("invoice", invoice).once("charge", charge, invoice)'
    call = once if chosen["effects"] == "steps" else "charge(invoice)"
    return _PYTHON.format(url=URLS[chosen["store"]], when=when, policies=policies, call=call, roles=roles)

"""Kubernetes manifests: a CronJob around `cronce exec`, a Deployment of `cronce run`, and least RBAC.

The settings of Kubernetes are derived from the job's, so that the two do not contradict each other: a pod that fails is
followed by as many as there are retries, a Job has as long as its attempts together, and the pause between TERM and
KILL is longer than the command's. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Final, Literal, TypeAlias

from cronce.errors import BadInput
from cronce.integrations.command import NOT_DONE
from cronce.policy import Overlap, is_rerun
from cronce.runtime.declare import SOME_DAY, Declaration
from cronce.runtime.pod import JOB_NAME
from cronce.schedule import Cron, rule_of, shortest_gap
from cronce.value import NamedTuple

Value: TypeAlias = "str | int | Mapping[str, Value] | Sequence[Value] | AnnotatedValue"
Manifest = dict[str, Value]
Restart = Literal["Never", "OnFailure"]

LONGEST_CRONJOB: Final = 52
"""Characters. The names of its Jobs have 11 more, and must fit into a label of 63."""
MAX_LABEL: Final = 63
DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
SUBDOMAIN: Final = re.compile(rf"{DNS_LABEL.pattern}(\.{DNS_LABEL.pattern})*")
MOST_PODS: Final = 2**31 - 1
"""backoffLimit is a number of 32 bits."""
QUANTITY: Final = re.compile(r"(?a)[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?")

REFERENCE: Final = re.compile(r"\$(?=[$(])")
"""In a command Kubernetes replaces $(NAME) and $$; a second $ keeps what is for a shell."""

USER: Final = 10001
"""The user of our Dockerfile, as a number: by a name Kubernetes cannot see that it is not root."""
PROBE_PORT: Final = 8080
JOBS_KEPT: Final = 3
CONTROLLER_EVERY: Final = 10
"""Seconds between two checks of the CronJob controller: a Job with a shorter deadline may never start."""

STARTING: Final = 300
"""Seconds that a Job has for finding a node and pulling its image, beside its attempts."""
PODS_WITHOUT_STORE: Final = 3
"""Pods that may fail because the store does not answer: with the pauses of Kubernetes that is over a minute."""

FIRST_PAUSE, LONGEST_PAUSE = 10, 360
"""Seconds that Kubernetes waits before the second pod of a Job; twice as long before each later one, up to the
second."""
RECORD_SECONDS: Final = 5
"""Seconds beyond the grace, to put on record how it ended."""

FOR_GOOD: Final = (NOT_DONE, 78, 126, 127)
"""Codes of `exec` after which another pod would end no better: the slot is closed and did not succeed, the store needs
a person, the command cannot be started."""

POLICIES: Final[Mapping[Overlap, str]] = {"skip": "Forbid", "wait": "Allow", "allow": "Allow", "replace": "Replace"}


class AnnotatedValue(NamedTuple):
    """A value, and a comment for readers of the manifest."""

    value: "Value"
    note: str


class PodSettings(NamedTuple):
    """Where it runs, and with what."""

    image: str
    namespace: str = ""
    secret: str = "cronce"  # noqa: S105  its name
    store: str = ""
    """A URL without a password, instead of the secret."""
    account: str = ""
    cpu: str = "100m"
    memory: str = "256Mi"


# --- the three ------------------------------------------------------------------------------------------------------


def cronjob(
    job: Declaration,
    words: Sequence[str],
    place: PodSettings,
    *,
    grace: timedelta,
    restart: Restart = "Never",
    suspend: bool = False,
) -> Manifest:
    """`words` are the whole command, from `cronce exec` on."""
    check_name(job.name, LONGEST_CRONJOB)
    spec: Manifest = {
        "schedule": expression(job),
        "timeZone": "Etc/UTC" if job.tz == "UTC" else job.tz,
        "concurrencyPolicy": AnnotatedValue(
            POLICIES[job.overlap],
            "Only about overlap: Kubernetes may still start two pods for one slot. The slot is claimed in the pod.",
        ),
        "startingDeadlineSeconds": _starting_deadline(job),
        "suspend": suspend,
        "successfulJobsHistoryLimit": JOBS_KEPT,
        "failedJobsHistoryLimit": JOBS_KEPT,
        "jobTemplate": {"spec": _job_spec(job, words, place, grace, restart)},
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _metadata(job.name, place.namespace), "spec": spec}


def deployment(name: str, words: Sequence[str], place: PodSettings, *, replicas: int, grace: timedelta) -> Manifest:
    """`words` are the whole command, from `cronce run` on, without --health."""
    check_name(name)
    if replicas < 0:
        raise BadInput(f"--replicas must be 0 or more, not {replicas}")
    container = _container(name, [*words, "--health", f"0.0.0.0:{PROBE_PORT}"], place) | {
        "ports": [{"name": "health", "containerPort": PROBE_PORT}],
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=5),
    }
    spec: Manifest = {
        "replicas": AnnotatedValue(replicas, "As many as you like: one of them claims each slot, and runs it."),
        "strategy": AnnotatedValue(
            {"type": "Recreate"},
            "The old ones are told to end before new ones start. No setting guarantees that there are never two:"
            " maxSurge: 0 does not\ncount a pod that is terminating, and a PodDisruptionBudget limits evictions"
            " only. Two at once are safe.",
        ),
        "selector": {"matchLabels": _labels(name)},
        "template": {"metadata": {"labels": _labels(name)}, "spec": _pod(container, place, grace)},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(name, place.namespace), "spec": spec}


def rbac(name: str, namespace: str) -> list[Manifest]:
    """What the `kubernetes://` store needs, and nothing else; other stores need no rights in the cluster at all."""
    check_name(name)
    check_namespace(namespace)
    metadata = _metadata(name, namespace)
    group = "rbac.authorization.k8s.io"
    rule: Value = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": AnnotatedValue(
            ["get", "list", "watch", "create", "update", "delete"],
            "list and watch are for schedulers and `cronce jobs`, delete is for `cronce store purge`. No patch.",
        ),
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]


# --- a Job ----------------------------------------------------------------------------------------------------------


def _job_spec(
    job: Declaration, words: Sequence[str], place: PodSettings, grace: timedelta, restart: Restart
) -> Manifest:
    container = _container(job.name, words, place)
    told: Value = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
    container["env"] = [
        *_env(place),
        AnnotatedValue({"name": JOB_NAME, "valueFrom": told}, "`cronce exec` finds its slot by this name."),
    ]
    if again(job) + PODS_WITHOUT_STORE > MOST_PODS:
        raise BadInput(
            f"--retries {job.retries} are more than Kubernetes counts: at most {MOST_PODS - PODS_WITHOUT_STORE - 1:,}"
        )
    spec: Manifest = {"backoffLimit": AnnotatedValue(again(job) + PODS_WITHOUT_STORE, _why(job))}
    if job.timeout is not None:
        note = "The whole Job; each attempt has its own --timeout."
        spec["activeDeadlineSeconds"] = AnnotatedValue(_active_deadline(job.timeout + grace, again(job)), note)
    if restart == "Never":
        spec["podFailurePolicy"] = {"rules": _failure_rules(job)}
    pod = _pod(container, place, grace)
    pod["restartPolicy"] = AnnotatedValue(
        restart,
        "Each attempt is a new pod, on any node with room; all logs are kept."
        if restart == "Never"
        else "Each attempt is in the same pod, on the same node; only the last two logs are kept.",
    )
    spec["template"] = {"metadata": {"labels": _labels(job.name)}, "spec": pod}
    return spec


def again(job: Declaration) -> int:
    """How many pods may fail before the last one. A pod that is killed counts too."""
    return job.retries + is_rerun(job.on_lost)


def _why(job: Declaration) -> str:
    more = ", one for a pod that is killed" if is_rerun(job.on_lost) else ""
    retries = f"--retries{more}, and {PODS_WITHOUT_STORE} for a store that is away"
    return f"{retries}. Pods beyond the retries run nothing, and fail."


def _failure_rules(job: Declaration) -> list[Value]:
    closed: Value = {"containerName": container_name(job.name), "operator": "In", "values": list(FOR_GOOD)}
    evicted: Value = {"type": "DisruptionTarget", "status": "True"}
    note = (
        "No more pods: the slot is closed and did not succeed, the store needs a person, or no command can be started."
    )
    return [
        AnnotatedValue({"action": "FailJob", "onExitCodes": closed}, note),
        AnnotatedValue({"action": "Ignore", "onPodConditions": [evicted]}, _evicted(job)),
    ]


def _evicted(job: Declaration) -> str:
    uncounted = "An eviction does not count as a failure: Kubernetes starts another pod."
    if again(job):
        return f"{uncounted} It runs the slot again."
    return (
        f"{uncounted} If the command had started,\nthe slot is closed by then, and that pod runs nothing;"
        " with --on-lost rerun or --retries it runs again."
    )


def _active_deadline(attempt: timedelta, more: int) -> int:
    pauses = sum(min(FIRST_PAUSE << min(number, 10), LONGEST_PAUSE) for number in range(more + PODS_WITHOUT_STORE))
    return ceil(attempt.total_seconds()) * (more + 1) + pauses + STARTING


def _starting_deadline(job: Declaration) -> int:
    """As long as a slot may start late: until the next one, unless the job says otherwise."""
    assert job.schedule is not None
    within = job.start_within or shortest_gap(job.schedule, SOME_DAY) or timedelta(days=1)
    seconds = int(within.total_seconds())
    if seconds < CONTROLLER_EVERY:
        raise BadInput(
            f"Kubernetes checks every {CONTROLLER_EVERY} s which Jobs are due: --start-within must be that or more"
        )
    return seconds


def expression(job: Declaration) -> str:
    """The schedule as Kubernetes reads it; what it would read differently is refused."""
    rule = job.schedule and rule_of(job.schedule)
    if not isinstance(rule, Cron):
        raise BadInput(
            "a CronJob fires by a cron expression: --schedule '*/15 * * * *'. For 'every 90m' and the like let cronce"
            " fire it: `cronce deploy k8s deployment`"
        )
    fields = rule.text.split()
    day, weekday = fields[-3], fields[-1]
    if len(fields) == 6:
        raise BadInput(f"{rule.text!r} has seconds, and a CronJob fires by the minute")
    if set("L#") & set(f"{day}{weekday}"):
        raise BadInput(f"{rule.text!r}: Kubernetes knows no L and no # in days")
    if re.search(r"(?<![0-9])0[0-9]", rule.text):
        raise BadInput(f"{rule.text!r}: Kubernetes takes no number with a leading zero; write 7 for 07")
    if any("," in field and "*" in field for field in (day, weekday)):
        raise BadInput(
            f"{rule.text!r}: in a list of days Kubernetes reads * differently from cron; list the days without *"
        )
    if any(map(_reaches_7, weekday.split(","))):
        raise BadInput(
            f"{rule.text!r}: the weekdays of Kubernetes are 0 to 6; Sunday is 0 or SUN, and a range has an end (1-6/2)"
        )
    if "*" not in (day, weekday) and (day.startswith("*") or weekday.startswith("*")):
        raise BadInput(
            f"{rule.text!r}: cron runs on days that match both {day} and {weekday}, Kubernetes on days that match"
            " either; write that field as a list, without *"
        )
    return rule.text


def _reaches_7(weekdays: str) -> bool:
    """Cron's week has two Sundays: from MON on, MON/2 goes to the second."""
    span, _, step = weekdays.partition("/")
    return "7" in span.split("-") or bool(step and span != "*" and "-" not in span)


# --- a pod ----------------------------------------------------------------------------------------------------------


def _container(name: str, words: Sequence[str], place: PodSettings) -> Manifest:
    for option, quantity in (("--cpu", place.cpu), ("--memory", place.memory)):
        if not QUANTITY.fullmatch(quantity):
            raise BadInput(f"{option} must be a quantity such as 100m or 256Mi, not {quantity!r:.40}")
    if place.memory.endswith("m"):
        raise BadInput(f"--memory {place.memory} is in thousandths of a byte; write {place.memory[:-1]}Mi")
    if not place.image or not place.image.isprintable() or " " in place.image:
        raise BadInput(f"--image must be the name of an image with cronce in it, not {place.image!r:.60}")
    return {
        "name": container_name(name),
        "image": place.image,
        "command": [REFERENCE.sub("$$", word) for word in words],
        "env": _env(place),
        "resources": {
            "requests": {"cpu": place.cpu, "memory": place.memory},
            "limits": {"memory": place.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  of the pod
    }


def _env(place: PodSettings) -> list[Value]:
    if place.store:
        return [{"name": "CRONCE_URL", "value": place.store}]
    check_name(place.secret, what="a secret")
    secret: Value = {"secretKeyRef": {"name": place.secret, "key": "url"}}
    made = f"kubectl create secret generic {place.secret} --from-literal=url=postgresql://…"
    return [AnnotatedValue({"name": "CRONCE_URL", "valueFrom": secret}, made)]


def _pod(container: Manifest, place: PodSettings, grace: timedelta) -> Manifest:
    pod: Manifest = {
        "terminationGracePeriodSeconds": ceil(grace.total_seconds()) + RECORD_SECONDS,
        "automountServiceAccountToken": bool(place.account),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {"serviceAccountName": check_name(place.account), **pod} if place.account else pod


def _probe(path: str, **seconds: int) -> Value:
    return {"httpGet": {"path": path, "port": "health"}, **seconds}


def _metadata(name: str, namespace: str) -> Value:
    where: Manifest = {"namespace": check_namespace(namespace)} if namespace else {}
    return {"name": name, **where, "labels": _labels(name)}


def _labels(name: str) -> Value:
    return {"app.kubernetes.io/name": name}


def container_name(name: str) -> str:
    """The name of a container, which may have no dots, unlike others."""
    return name.replace(".", "-")


def check_name(name: str, longest: int = MAX_LABEL, what: str = "a name", *, dots: bool = True) -> str:
    if not (SUBDOMAIN if dots else DNS_LABEL).fullmatch(name) or len(name) > longest:
        letters, ends = ("- and .", "- or .") if dots else ("and -", "-")
        raise BadInput(
            f"{name[:80]!r} cannot be {what} in Kubernetes: use 1 to {longest} characters of a–z 0–9 {letters}, with"
            f" no {ends} at the start or the end"
        )
    return name


def check_namespace(name: str) -> str:
    return check_name(name, what="a namespace", dots=False)


# --- as YAML --------------------------------------------------------------------------------------------------------

# A text is plain only where no reader could take it for anything else (`no`, `1e3`, `12:30` and `2026-03-29` are all
# something else to one reader or another); else it is quoted.
PLAIN: Final = re.compile(r"(?a)[A-Za-z][\w./-]*")
TAKEN: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def dump(*documents: Mapping[str, Value]) -> str:
    """The documents, one after the other: blocks of keys and lists, and notes above them, for people to edit."""
    return "---\n".join("".join(f"{line}\n" for line in _lines(document)) for document in documents)


def _lines(value: Value) -> Iterator[str]:
    match value:
        case str():
            yield _text(value)
        case int():
            yield str(value).lower()
        case Mapping() if value:
            for key, item in value.items():
                yield from _entry(f"{_text(key)}:", item)
        case Sequence() if value:
            for item in value:
                yield from _entry("-", item)
        case _:
            yield "{}" if isinstance(value, Mapping) else "[]"


def _entry(mark: str, item: Value) -> Iterator[str]:
    """What stands behind a key, or behind the dash of a list."""
    value, note = item if isinstance(item, AnnotatedValue) else (item, "")
    yield from (f"# {line}" for line in note.splitlines())
    first, *others = _lines(value)
    if mark == "-" or isinstance(value, str | int) or not value:
        yield f"{mark} {first}"
    else:
        yield from (mark, f"  {first}")
    yield from (f"  {line}" for line in others)


def _text(text: str) -> str:
    if PLAIN.fullmatch(text) and text.lower() not in TAKEN:
        return text
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"

"""cronce deploy k8s and systemd: print manifests and units. `integrations` makes their text."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cronce.cli import JSON_ARGUMENT, Arguments, add_actions, add_arguments, parser_of, say
from cronce.cli.exec import CALL_ARGUMENTS, COMMAND_POLICIES, declared, said
from cronce.cli.host_settings import place_of_slots, program, refuse_windows
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.integrations.manifests import Manifest, PodSettings, cronjob, deployment, dump, rbac
from cronce.integrations.systemd import Units, units
from cronce.runtime.app_loading import module_and_object
from cronce.schedule import Cron, parse_duration
from cronce.stores import mask
from cronce.telling.words import safe

K8S_DESCRIPTION: Final = """\
Print manifests, to check and to pipe into `kubectl apply -f -`. This command does not contact a cluster.

  cronce deploy k8s cronjob NAME --image IMAGE --schedule SCHEDULE [options] -- COMMAND [argument ...]
  cronce deploy k8s deployment NAME MODULE:OBJECT --image IMAGE [options] [-- options of `cronce run`]
  cronce deploy k8s rbac [NAME]"""

K8S_EPILOG: Final = """
examples:
  cronce deploy k8s cronjob report --image shop:1.4 --schedule '0 9 * * *' --tz Europe/Berlin --retries 2 -- ./report.sh
  cronce deploy k8s deployment scheduler shop.jobs:cron --image shop:1.4 --replicas 3 -- --workers 20
  cronce deploy k8s rbac | kubectl apply -f -
"""

RBAC: Final[Arguments] = {
    "[NAME]": ("cronce", "the name of the account, the role and the binding (default: cronce)"),
    "--namespace NAME": ("default", "the namespace (default: default)"),
}
RESTARTS: Final[Arguments] = {
    "--restart {Never,OnFailure}": (
        "Never",
        "restartPolicy: Never makes a new pod for each attempt, OnFailure uses the same pod",
    ),
    "--suspend": "create it suspended: it starts nothing yet",
}
DEPLOY_ACTIONS: Final = {
    "cronjob": "a CronJob around a command: each slot runs once, even if Kubernetes starts it twice",
    "deployment": "schedulers: as many pods as you like, with probes",
    "rbac": "the rights that the kubernetes:// store needs, and nothing else",
}


def add_k8s_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(hint="options of the command, and of `cronce run`, go after two dashes: … -- --workers 20")
    made = add_actions(parser, DEPLOY_ACTIONS)
    _add_cronjob(made["cronjob"])
    _add_deployment(made["deployment"])
    add_arguments(made["rbac"], RBAC)


def _add_cronjob(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} NAME --image IMAGE --schedule SCHEDULE [options] -- COMMAND [argument ...]"
    add_arguments(parser, {"NAME": "the job's name, and the CronJob's"})
    _add_pod(parser)
    add_arguments(parser, {**COMMAND_POLICIES, **RESTARTS})


def _add_deployment(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} NAME MODULE:OBJECT --image IMAGE [options] [-- options of `cronce run`]"
    app = {"app: MODULE:OBJECT": "the Cronce object in the image: app:cron"}
    add_arguments(parser, {"NAME": "the Deployment's name", **app})
    _add_pod(parser)
    add_arguments(parser, {"--replicas N": (1, "pods (default: 1)")})


def _add_pod(parser: argparse.ArgumentParser) -> None:
    usual = PodSettings("")
    add_arguments(parser, {"--image IMAGE": "an image that has cronce and your code"}, required=True)
    options: Arguments = {
        "--namespace NAME": ("", "the namespace (default: that of `kubectl apply`)"),
        "--secret NAME": (usual.secret, "a secret whose key `url` is the store's URL (default: cronce)"),
        "--store URL": ("", "kubernetes://NAMESPACE, instead of a secret"),
        "--account NAME": ("", "the service account (default: none; with kubernetes://: cronce)"),
        "--cpu QUANTITY": (usual.cpu, f"what the pod requests (default: {usual.cpu})"),
        "--memory QUANTITY": (usual.memory, f"the pod's limit (default: {usual.memory})"),
    }
    add_arguments(parser, options)


def run_k8s(options: argparse.Namespace) -> None:
    makers = {"cronjob": _cronjob, "deployment": _deployment, "rbac": _rbac}
    print(dump(*makers[options.action](options)), end="")


def _cronjob(options: argparse.Namespace) -> Sequence[Manifest]:
    if not options.command or options.schedule is None:
        raise BadInput("the command or its schedule is missing: … k8s cronjob NAME --image … --schedule … -- COMMAND")
    job, grace = declared(options), parse_duration(options.grace)
    words = ["cronce", "exec", job.name, *said(options), "--", *options.command]
    return [cronjob(job, words, _pod(options), grace=grace, restart=options.restart, suspend=options.suspend)]


def _deployment(options: argparse.Namespace) -> Sequence[Manifest]:
    module_and_object(options.app)
    more = list(options.command)
    meant = parser_of("run").parse_args([options.app, *more])
    if meant.health is not None:
        raise BadInput("leave out --health: the manifest sets it already, for the probes")
    words = ["cronce", "run", options.app, *more]
    grace = parse_duration(meant.grace)
    return [deployment(options.name, words, _pod(options), replicas=options.replicas, grace=grace)]


def _rbac(options: argparse.Namespace) -> Sequence[Manifest]:
    if options.command:
        raise BadInput("`rbac` starts no command: leave out what follows the two dashes")
    return rbac(options.name, options.namespace)


def _pod(options: argparse.Namespace) -> PodSettings:
    if options.store and not options.store.startswith("kubernetes://"):
        raise BadInput(
            "the URL of a store may contain a password, which does not belong in a manifest: put the URL into a"
            " secret, and name the secret with --secret"
        )
    leases, pods = options.store.partition("://")[2].partition("?")[0].strip("/"), options.namespace
    if leases and pods and leases != pods:
        say(
            "k8s",
            f"the pods are in {pods}, and slots in {leases}: `cronce deploy k8s rbac` creates the account and its role"
            f" in one namespace. Use kubernetes://{pods}, or bind {pods}'s account to the role in {leases} yourself",
        )
    account = options.account or ("cronce" if options.store else "")
    return PodSettings(
        options.image, options.namespace, options.secret, options.store, account, options.cpu, options.memory
    )


# --- systemd ----------------------------------------------------------------------------------------------------------

SYSTEMD_DESCRIPTION: Final = """\
Print a service and a timer that are safe on many hosts: enable them on every one, and each slot runs once.

  cronce deploy systemd order-sync --schedule '*/15 * * * *' --directory /etc/systemd/system -- /opt/shop/sync.sh
  systemctl daemon-reload && systemctl enable --now cronce-order-sync.timer

It takes the options of `cronce exec` and writes them into the service. It prints on stderr where slots will be kept."""


OF_A_TIMER: Final[Arguments] = {**COMMAND_POLICIES, **CALL_ARGUMENTS}
"""Those of `cronce exec` that a timer has a use for."""

SYSTEMD_ARGUMENTS: Final[Arguments] = {
    "NAME": "the job's name, the same on every machine",
    **OF_A_TIMER,
    "--user USER": ("", "the user that runs it (default: root)"),
    "--directory DIR": "write both files there instead of printing them",
    **JSON_ARGUMENT,
}


def add_systemd_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} NAME --schedule SCHEDULE [options] -- COMMAND [argument ...]"


def run_systemd(options: argparse.Namespace) -> None:
    refuse_windows("systemd")
    _refuse(options)
    job = declared(options)
    if not isinstance(job.schedule, Cron):
        raise BadInput(f"{options.schedule!r} is not a cron expression, and systemd's calendar cannot express it")
    words = [*program(), "exec", job.name, *said(options, OF_A_TIMER), "--", *options.command]
    made = units(
        options.name, job.schedule, words, parse_duration(options.grace),
        since=SystemClock().wall(), user=options.user,
    )  # fmt: skip
    _show(made, options)
    if not options.store and not options.json:
        print(safe(place_of_slots(options.user or "root", {}, "systemd")), file=sys.stderr)


def _refuse(options: argparse.Namespace) -> None:
    if not options.command:
        raise BadInput("the command is missing; put it after two dashes: … systemd NAME --schedule … -- COMMAND")
    if options.schedule is None:
        raise BadInput("the schedule is missing; give --schedule '*/15 * * * *'")
    if not options.command[0].startswith("/"):
        raise BadInput(
            f"systemd starts its services in /, with a PATH of its own: write the full path of {options.command[0]}"
        )
    if options.store and mask(options.store) != options.store:
        raise BadInput(
            "any user can read a unit file, and this URL has a password in it; put the URL into /etc/cronce.toml"
        )


def _show(made: Units, options: argparse.Namespace) -> None:
    files = {f"{made.name}.service": made.service, f"{made.name}.timer": made.timer}
    if options.json:
        print(json.dumps({"units": files}))
    elif options.directory:
        for path in _write(Path(options.directory), files):
            print(f"{path}: written")
        print(f"systemctl daemon-reload && systemctl enable --now {made.name}.timer")
    else:
        print("\n".join(f"# --- {name} ---\n{text}" for name, text in files.items()), end="")


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be written ({error.strerror})") from None
    return [folder / name for name in files]

"""cronce k8s: print Kubernetes manifests that are right."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final, get_args

from cronce.cli import add_actions, parser_of
from cronce.cli.exec import add_policies, declared, said
from cronce.errors import BadInput
from cronce.integrations.deploy.manifests import Manifest, PodSettings, Restart, cronjob, deployment, rbac
from cronce.integrations.deploy.yaml_text import dump
from cronce.runtime.application import module_and_object
from cronce.schedule import parse_duration

TEXT: Final = """\
Print manifests to look through, and to pipe into `kubectl apply -f -`. Nothing is asked of a cluster.

  cronce k8s cronjob NAME --image IMAGE --schedule SCHEDULE [options] -- COMMAND [argument ...]
  cronce k8s deployment NAME MODULE:OBJECT --image IMAGE [options] [-- options of `cronce run`]
  cronce k8s rbac [NAME]"""

EXAMPLES: Final = """
examples:
  cronce k8s cronjob report --image shop:1.4 --schedule '0 9 * * *' --tz Europe/Berlin --retries 2 -- ./report.sh
  cronce k8s deployment scheduler shop.jobs:cron --image shop:1.4 --replicas 3 -- --workers 20
  cronce k8s rbac | kubectl apply -f -
"""

ACTIONS: Final = {
    "cronjob": "a CronJob around a command: each slot runs once, whatever Kubernetes starts twice",
    "deployment": "schedulers: as many pods as you like, with probes",
    "rbac": "the rights that the kubernetes:// store needs, and nothing else",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = TEXT, EXAMPLES
    parser.set_defaults(hint="options of the command, and of `cronce run`, go behind two dashes: … -- --workers 20")
    made = add_actions(parser, ACTIONS)
    _add_cronjob(made["cronjob"])
    _add_deployment(made["deployment"])
    made["rbac"].add_argument(
        "name", nargs="?", default="cronce", metavar="NAME", help="of all three (default: cronce)"
    )
    made["rbac"].add_argument("--namespace", default="default", metavar="NAME", help="where (default: default)")


def _add_cronjob(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cronce k8s cronjob NAME --image IMAGE --schedule SCHEDULE [options] -- COMMAND [argument ...]"
    parser.add_argument("name", metavar="NAME", help="the job's name, and the CronJob's")
    _add_place(parser)
    add_policies(parser)
    add = parser.add_argument
    add(
        "--restart",
        choices=get_args(Restart),
        default="Never",
        help="restartPolicy: a new pod for each attempt, or not",
    )
    add("--suspend", action="store_true", help="make it, and let it fire nothing yet")


def _add_deployment(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cronce k8s deployment NAME MODULE:OBJECT --image IMAGE [options] [-- options of `cronce run`]"
    parser.add_argument("name", metavar="NAME", help="the Deployment's name")
    parser.add_argument("app", metavar="MODULE:OBJECT", help="where the Cronce is, in the image: app:cron")
    _add_place(parser)
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="pods (default: 1)")


def _add_place(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument, PodSettings("")
    add("--image", required=True, metavar="IMAGE", help="an image with cronce and your code in it")
    add("--namespace", default="", metavar="NAME", help="(default: that of `kubectl apply`)")
    add("--secret", default=usual.secret, metavar="NAME", help="whose key `url` is the store's (default: cronce)")
    add("--store", default="", metavar="URL", help="kubernetes://NAMESPACE, instead of a secret")
    add("--account", default="", metavar="NAME", help="the service account (default: none; of kubernetes://: cronce)")
    add("--cpu", default=usual.cpu, metavar="QUANTITY", help=f"that it asks for (default: {usual.cpu})")
    add("--memory", default=usual.memory, metavar="QUANTITY", help=f"that it has at most (default: {usual.memory})")


def run(options: argparse.Namespace) -> int:
    makers = {"cronjob": _cronjob, "deployment": _deployment, "rbac": _rbac}
    print(dump(*makers[options.action](options)), end="")
    return 0


def _cronjob(options: argparse.Namespace) -> Sequence[Manifest]:
    if not options.command or options.schedule is None:
        raise BadInput("what shall be run, and when? cronce k8s cronjob NAME --image … --schedule … -- COMMAND")
    job, grace = declared(options), parse_duration(options.grace)
    words = ["cronce", "exec", job.name, *said(options), "--", *options.command]
    return [cronjob(job, words, _place(options), grace=grace, restart=options.restart, suspend=options.suspend)]


def _deployment(options: argparse.Namespace) -> Sequence[Manifest]:
    module_and_object(options.app)
    more = list(options.command)
    meant = parser_of("run").parse_args([options.app, *more])
    if meant.health is not None:
        raise BadInput("leave out --health: the probes ask for it, and it is there")
    words = ["cronce", "run", options.app, *more]
    grace = parse_duration(meant.grace)
    return [deployment(options.name, words, _place(options), replicas=options.replicas, grace=grace)]


def _rbac(options: argparse.Namespace) -> Sequence[Manifest]:
    if options.command:
        raise BadInput("rights run nothing: leave out what stands behind the two dashes")
    return rbac(options.name, options.namespace)


def _place(options: argparse.Namespace) -> PodSettings:
    if options.store and not options.store.startswith("kubernetes://"):
        raise BadInput(
            "a URL may hold a password, and a manifest is no place for one: put it into a secret, and name that with"
            " --secret"
        )
    if options.store and options.namespace:
        _warn_apart(options.store.partition("://")[2].partition("?")[0].strip("/"), options.namespace)
    account = options.account or ("cronce" if options.store else "")
    return PodSettings(
        options.image, options.namespace, options.secret, options.store, account, options.cpu, options.memory
    )


def _warn_apart(leases: str, pods: str) -> None:
    if leases and leases != pods:
        print(
            f"cronce k8s: the pods are in {pods}, and slots in {leases}: `cronce k8s rbac` makes account and rights"
            f" in one namespace. Use kubernetes://{pods}, or bind {pods}'s account to the role in {leases} yourself",
            file=sys.stderr,
        )

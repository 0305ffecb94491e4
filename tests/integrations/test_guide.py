"""The guide: every combination of answers has a recommendation, and none contradicts itself."""

import os
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime, timedelta
from itertools import chain, combinations, product
from pathlib import Path
from typing import get_args

import pytest
import yaml

from cronce.integrations.guide import (
    GUIDE_RULES,
    URLS,
    Advice,
    Answers,
    Cost,
    Provider,
    Server,
    advise,
    expression,
    facts_of,
)
from cronce.schedule import Cron, parse_duration
from tests.integrations.machines import machine

SERVERS = get_args(Server)
SETS = [frozenset(some) for some in chain.from_iterable(combinations(SERVERS, n) for n in range(len(SERVERS) + 1))]
SPANS = [(timedelta(seconds=1), timedelta(seconds=5)), (timedelta(minutes=7), timedelta(minutes=1)),
         (timedelta(minutes=5), timedelta(minutes=10)), (timedelta(days=1), timedelta(hours=2))]  # fmt: skip


def combinations_of_answers() -> list[Answers]:
    """Of what is counted, a value on each side of every line that is drawn."""
    return [
        Answers(stores, provider, machines, jobs, every, runs_for, cost, idempotent, add_server)
        for stores, provider, machines, jobs, (every, runs_for), cost, idempotent, add_server in product(
            SETS, get_args(Provider), (1, 3), (10, 5_000), SPANS, get_args(Cost), (False, True), (False, True)
        )
    ]


@pytest.fixture(scope="module")
def all_advice() -> list[tuple[Answers, Advice]]:
    return [(answers, advise(answers)) for answers in combinations_of_answers()]


def chosen(advice: Advice) -> dict[str, str]:
    return {facet: getattr(advice, facet).choice for facet in GUIDE_RULES}


def test_every_combination_has_an_answer_and_every_rule_is_some_ones(
    all_advice: list[tuple[Answers, Advice]],
) -> None:
    assert len(all_advice) == 16 * 5 * 2 * 2 * 4 * 3 * 2 * 2
    used: set[int] = set()
    for _answers, advice in all_advice:
        used |= {id(getattr(advice, facet)) for facet in GUIDE_RULES}
    rules = [(facet, rule) for facet, rules in GUIDE_RULES.items() for rule in rules]
    assert [(facet, rule.choice, rule.when) for facet, rule in rules if id(rule) not in used] == []


def contradictions(answers: Answers, advice: Advice) -> list[str]:
    """What must never be said together."""
    said = chosen(advice)
    shared = answers.machines > 1 or answers.provider == "kubernetes"
    alone = said["store"] == "sqlite" and shared
    rules: dict[str, bool] = {
        "a file for several machines, though they have a server": alone
        and (bool(answers.stores) or answers.add_server),
        "a file for several machines, and not a word that only one may run": alone
        and "let one of them" not in advice.store.because,
        "a file in Kubernetes": said["store"] == "sqlite" and answers.provider == "kubernetes",
        "a server to add, though none is acceptable": said["store"] in {"postgresql", "mysql", "redis", "etcd"}
        and {"postgresql": "postgres"}.get(said["store"], said["store"]) not in answers.stores
        and not answers.add_server,
        "Kubernetes' objects where there is no cluster": said["store"] == "kubernetes"
        and answers.provider != "kubernetes",
        "effects by key on a store without effects": said["store"] == "kubernetes" and said["effects"] == "steps",
        "a run again by hand on Lease objects": said["store"] == "kubernetes" and "run it again" in advice.on_lost.but,
        "a queue, or slots that wait, on Lease objects": said["store"] == "kubernetes"
        and (said["trigger"] == "queue" or said["overlap"] == "wait"),
        "run again what must not be repeated": said["on_lost"] == "rerun"
        and not answers.idempotent
        and said["effects"] != "steps",
        "cron for what cron cannot say": said["trigger"] in {"crontab", "cronjob"} and not expression(answers.every),
        "a pod where there is no cluster": said["trigger"] == "cronjob" and answers.provider != "kubernetes",
        "a store that may forget, without a word": said["store"] == "redis" and "failover" not in advice.store.but,
        "steps in a command": said["effects"] == "steps" and said["trigger"] in {"crontab", "cronjob"},
        "a time limit below what a run takes": parse_duration(advice.timeout) <= answers.runs_for,
    }
    return [what for what, wrong in rules.items() if wrong]


def test_nothing_is_contradictory(all_advice: list[tuple[Answers, Advice]]) -> None:
    found = {what: answers for answers, advice in all_advice for what in contradictions(answers, advice)}
    assert found == {}


def test_every_list_of_rules_ends_in_one_without_conditions_and_says_why() -> None:
    known = set(facts_of(Answers(frozenset(SERVERS)))) | set(GUIDE_RULES) | {"runs"}
    for rules in GUIDE_RULES.values():
        assert rules[-1].when == {}
        assert [rule for rule in rules if not rule.because or not set(rule.when) <= known] == []


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (Answers(frozenset({"postgres"})), ("postgresql", "crontab", "skip")),
        (Answers(machines=1), ("sqlite", "crontab", "skip")),
        (Answers(provider="kubernetes", idempotent=True), ("kubernetes", "cronjob", "rerun")),
        (Answers(provider="kubernetes", failure_costs="money"), ("postgresql", "cronjob", "skip")),
        (Answers(frozenset({"redis"}), jobs=20_000, every=timedelta(minutes=1), runs_for=timedelta(seconds=1)),
         ("redis", "queue", "skip")),
        (Answers(frozenset({"redis", "postgres"}), jobs=20_000, every=timedelta(minutes=1), failure_costs="nothing"),
         ("redis", "queue", "skip")),
        (Answers(frozenset({"mysql"}), every=timedelta(seconds=10)), ("mysql", "scheduler", "skip")),
        (Answers(add_server=False), ("sqlite", "crontab", "skip")),
    ],
)  # fmt: skip
def test_the_seeds_advice_holds(answers: Answers, expected: tuple[str, str, str]) -> None:
    """A lock where it is simple, a queue where there is much to do, the cluster's own means where there is one."""
    advice = advise(answers)
    assert (advice.store.choice, advice.trigger.choice, advice.on_lost.choice) == expected


def test_the_page_has_it_in_five_lines() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/choose.md").read_text(encoding="utf-8")
    lines = page.partition("## In five lines\n")[2].partition("\n## ")[0].strip().splitlines()
    assert [line.partition(". **")[0] for line in lines] == ["1", "2", "3", "4", "5"]


def test_the_provider_is_told_of() -> None:
    advice = advise(Answers(frozenset({"postgres"}), provider="aws"))
    assert advice.notes[0] == "on AWS: RDS or Aurora PostgreSQL, multi-AZ"
    assert advice.install == "pip install 'cronce[postgres]'"


@pytest.mark.parametrize(
    ("every", "text"),
    [
        ("1s", ""), ("30s", ""), ("90s", ""), ("1m", "*/1 * * * *"), ("5m", "*/5 * * * *"), ("7m", ""), ("90m", ""),
        ("1h", "0 */1 * * *"), ("6h", "0 */6 * * *"), ("5h", ""),
        ("1d", "0 3 * * *"), ("2d", ""), ("7d", "0 3 * * MON"),
    ],
)  # fmt: skip
def test_how_often_is_an_expression_only_where_it_is_exactly_that(every: str, text: str) -> None:
    span = parse_duration(every)
    assert expression(span) == text
    first = Cron(text).next(datetime(2026, 1, 1, tzinfo=UTC)) if text else None
    assert first is None or Cron(text).next(first) == first + span


# --- the snippets run -------------------------------------------------------------------------------------------------


def environment(folder: Path) -> dict[str, str]:
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    state = f"{folder}/.local/state"  # as if nobody had chosen one
    return {"HOME": str(folder), "XDG_STATE_HOME": state, "PATH": path, "LANG": "C.UTF-8"}


def run(words: list[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("idempotent", "policy"), [(True, "--on-lost rerun"), (False, "--on-lost skip")])
def test_the_lines_for_a_crontab_run(idempotent: bool, policy: str, tmp_path: Path) -> None:
    """On a machine of its own: even looking at a crontab makes Debian's `crontab` a spool."""
    snippet = advise(Answers(machines=1, idempotent=idempotent)).snippet
    assert snippet.language == "sh"
    with machine() as host:
        done = host.run("sh", "-e", "-c", f"cd {tmp_path}\n{snippet.text}", env=environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert said.startswith("your command\n")
    assert f" exec my-job --schedule '*/15 * * * *' {policy} --overlap skip --timeout 3m -- echo 'your command'" in said
    assert f"this host only: slots are kept in {tmp_path}/.local/state" not in said  # cron's own home, not this one
    assert "this host only: slots are kept in /" in said
    assert "CRONCE_URL" not in snippet.text
    assert list(tmp_path.rglob("*.db")) == [tmp_path / ".local/state/cronce/cronce.db"]


@pytest.mark.parametrize(("idempotent", "documents"), [(True, 4), (False, 1)])
def test_the_manifests_are_made(idempotent: bool, documents: int, tmp_path: Path) -> None:
    """With the rights that Lease objects need, or with the secret that holds the URL."""
    snippet = advise(Answers(provider="kubernetes", idempotent=idempotent)).snippet
    (kubectl := tmp_path / "kubectl").write_text('#!/bin/sh\n[ "$*" = "apply -f -" ] && cat && echo ---\n')
    kubectl.chmod(0o755)
    made = run(["sh", "-e", "-c", f"PATH=$PWD:$PATH\n{snippet.text}"], tmp_path)
    kinds = [document["kind"] for document in yaml.safe_load_all(made) if document]
    assert (kinds[-1], len(kinds)) == ("CronJob", documents)


@pytest.mark.parametrize(
    ("answers", "trigger"),
    [
        (Answers(machines=1, every=timedelta(seconds=90), failure_costs="money"), "scheduler"),
        (Answers(machines=1, jobs=5_000, every=timedelta(hours=1), runs_for=timedelta(hours=1)), "queue"),
    ],
)
def test_the_application_runs(answers: Answers, trigger: str, tmp_path: Path) -> None:
    advice = advise(answers)
    assert (advice.trigger.choice, advice.snippet.language) == (trigger, "python")
    (tmp_path / "app.py").write_text(advice.snippet.text)
    said = run([sys.executable, "-W", "error", "-c", "import app; app.my_job()"], tmp_path)
    assert said == "charging 7\ncharging 8\ncharging 9\n"
    assert (tmp_path / "cronce.db").exists()


@pytest.mark.parametrize("provider", ["own", "kubernetes"])
def test_a_store_that_may_forget_is_begun_on_purpose_before_the_first_job(provider: Provider) -> None:
    lines = advise(Answers(frozenset({"redis"}), provider=provider)).snippet.text.splitlines()
    (begin,) = [number for number, line in enumerate(lines) if "cronce store init  # once" in line]
    assert begin < next(number for number, line in enumerate(lines) if "my-job" in line)


def test_every_application_is_python(all_advice: list[tuple[Answers, Advice]]) -> None:
    texts = {advice.snippet.text for _, advice in all_advice if advice.snippet.language == "python"}
    for text in texts:
        compile(text, "app.py", "exec")
    assert {url for url in URLS.values() if any(url in text for text in texts)} == set(URLS.values())

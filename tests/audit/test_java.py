"""Spring's scheduled methods, ShedLock and Quartz on several instances."""

from pathlib import Path

import pytest

from cronce_audit.model import Confidence, Severity
from tests.audit.manifests import DEPLOYMENT, changed
from tests.audit.trees import findings_in, report_on

APP = "src/main/java/shop/App.java"
JOBS = "src/main/java/shop/Jobs.java"
SETTINGS = "src/main/resources/application.yml"
SWITCHED_ON = "@SpringBootApplication\n@EnableScheduling\npublic class App {}\n"
LOCKS_TOO = SWITCHED_ON.replace(
    "@EnableScheduling", '@EnableScheduling\n@EnableSchedulerLock(defaultLockAtMostFor = "9m")'
)
THREE = "services:\n  shop:\n    image: shop\n    command: [java, -jar, shop.jar]\n    scale: 3\n"
IMPORTS = """\
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.redisson.api.RLock;
import org.springframework.scheduling.annotation.Scheduled;
"""
NIGHTLY = '@Scheduled(cron = "0 0 3 * * *")'
LOCK = '@SchedulerLock(name = "a", lockAtMostFor = "9m", lockAtLeastFor = "1m")'


def jobs(*members: str, marks: str = "@Component", imports: str = IMPORTS) -> str:
    """A class; its members begin on line 6."""
    body = "\n".join(members)
    return f"{imports}{marks}\npublic class Jobs {{\n{body}\n    void work() {{}}\n}}\n"


def found(tmp_path: Path, code: str, *only: str, app: str = SWITCHED_ON, **more: str) -> list[str]:
    tree = {APP: app, JOBS: code, "compose.yaml": THREE, **more}
    return [one.replace(f" {JOBS}", "") for one in findings_in(tmp_path, tree, *only)]


def test_a_scheduled_method_runs_in_every_instance(tmp_path: Path) -> None:
    assert found(tmp_path, jobs(f"{NIGHTLY} void nightly() {{ work(); }}"), "CR701", "CR702") == ["CR701:6"]


@pytest.mark.parametrize(
    "code",
    [
        jobs(f"{NIGHTLY} {LOCK} void nightly() {{ work(); }}"),
        jobs(f'{NIGHTLY} void nightly() {{ if (redisson.getLock("a").tryLock()) work(); }}'),
        jobs(f'{NIGHTLY} void nightly() {{ jdbc.query("select pg_try_advisory_lock(1)"); work(); }}'),
        jobs(
            f"{NIGHTLY} void nightly() {{ guarded(); }}", "void guarded() { executor.executeWithLock(this::work, c); }"
        ),
        jobs(f"{NIGHTLY} void nightly() {{ if (!leader.isLeader()) return; work(); }}"),
        jobs(f"{NIGHTLY} @DistributedLock void nightly() {{ work(); }}"),
        jobs(f"{NIGHTLY} void nightly() {{ work(); }}", marks='@Profile("jobs")'),
        jobs('@Scheduled(cron = "${jobs.nightly:-}") void nightly() { work(); }'),
        jobs('@Scheduled(cron = "-") void nightly() { work(); }'),
        jobs("@Scheduled(cron = Scheduled.CRON_DISABLED) void nightly() { work(); }"),
        jobs(f"{NIGHTLY} void nightly() {{ work(); }}", imports="import io.quarkus.scheduler.Scheduled;\n" * 3),
        jobs(f"{NIGHTLY} void nightly() {{ work(); }}", imports="import shop.Scheduled;\n" * 3),
        jobs("// @Scheduled\n void nightly() { work(); }"),
    ],
)
def test_a_guard_a_condition_or_another_framework_is_silent(tmp_path: Path, code: str) -> None:
    assert found(tmp_path, code, "CR701", "CR702", "CR702", app=LOCKS_TOO) == []


@pytest.mark.parametrize(
    ("code", "app"),
    [
        (jobs(f"{NIGHTLY} void nightly() {{ if (!enabled) return; work(); }}"), SWITCHED_ON),
        (jobs(f"{NIGHTLY} void nightly() {{ work(); }}", marks='@ConditionalOnProperty("jobs")'), SWITCHED_ON),
        (
            jobs(f"{NIGHTLY} void nightly() {{ work(); }}"),
            SWITCHED_ON.replace("@EnableS", '@ConditionalOnProperty("jobs")\n@EnableS'),
        ),
    ],
)
def test_a_condition_that_cannot_be_judged_is_information_to_look_at(tmp_path: Path, code: str, app: str) -> None:
    every = report_on(tmp_path, {APP: app, JOBS: code, "compose.yaml": THREE}).findings
    told = [one for one in every if one.rule != "CR320"]
    assert [(one.rule, one.severity, one.confidence) for one in told] == [("CR702", Severity.INFO, Confidence.LOW)]


def test_a_condition_that_holds_by_default_is_none(tmp_path: Path) -> None:
    app = SWITCHED_ON.replace("@EnableS", '@ConditionalOnProperty(name = "jobs", matchIfMissing = true)\n@EnableS')
    assert found(tmp_path, jobs(f"{NIGHTLY} void nightly() {{ work(); }}"), "CR701", app=app) == ["CR701:6"]


KOTLIN = """\
import org.springframework.scheduling.annotation.Scheduled

@Component
class Jobs(private val mails: Mails) {
    @Scheduled(cron = "0 0 3 * * *")
    MARKS
    fun nightly() {
        BODY
    }

    @Scheduled(fixedDelay = 60000)
    fun often() = mails.send()
}
"""


@pytest.mark.parametrize(
    ("marks", "body", "says"),
    [
        ("", "mails.send()", ["CR701 Jobs.kt:5", "CR702 Jobs.kt:11"]),
        ('@SchedulerLock(name = "a", lockAtLeastFor = "1m")', "mails.send()", ["CR702 Jobs.kt:11"]),
        ('@SchedulerLock(name = "a")', "mails.send()", ["CR307 Jobs.kt:6", "CR702 Jobs.kt:11"]),
        ("", "if (lock.tryLock()) mails.send()", ["CR702 Jobs.kt:11", "CR702 Jobs.kt:5"]),
        ("", "if (!enabled) return", ["CR702 Jobs.kt:11", "CR702 Jobs.kt:5"]),
    ],
)
def test_kotlin(tmp_path: Path, marks: str, body: str, says: list[str]) -> None:
    code = KOTLIN.replace("MARKS", marks).replace("BODY", body)
    tree = {"App.kt": SWITCHED_ON, "Jobs.kt": code, "compose.yaml": THREE}
    assert sorted(findings_in(tmp_path, tree, "CR701", "CR702", "CR307")) == says


def test_the_one_job_of_a_class_that_asks_for_no_leader(tmp_path: Path) -> None:
    """The class has a leader service, which another of its jobs asks: that said nothing of this one, and hid it."""
    code = """\
import org.springframework.scheduling.annotation.Scheduled

class Jobs(private val mails: Mails, private val leader: LeaderElection) {
    @Scheduled(cron = "0 0 3 * * *")
    fun led() = start()

    @Scheduled(cron = "0 0 4 * * *")
    fun alone() = mails.send()

    private fun start() {
        if (leader.isLeader()) mails.send()
    }
}
"""
    tree = {"App.kt": SWITCHED_ON, "Jobs.kt": code, "compose.yaml": THREE, "LeaderElection.kt": "// LeaderElection\n"}
    assert findings_in(tmp_path, tree, "CR701", "CR702") == ["CR701 Jobs.kt:7"]


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ("// @Component", []),
        ('@Component @Profile("scheduler")', []),
        ('@Component @Profile({"prod", "scheduler"})', ["CR702:6"]),
    ],
)
def test_a_class_that_spring_does_not_see_or_that_is_a_program_of_its_own(
    tmp_path: Path, marks: str, says: list[str]
) -> None:
    code = jobs(f"{NIGHTLY} void nightly() {{ work(); }}", marks=marks)
    assert found(tmp_path, code, "CR701", "CR702") == says


def test_a_lock_that_ends_with_a_job_of_a_fixed_rate_is_told_too(tmp_path: Path) -> None:
    code = jobs('@SchedulerLock(name = "a") @Scheduled(fixedRate = 1000) void a() { work(); }')
    assert found(tmp_path, code, "CR307", app=LOCKS_TOO) == ["CR307:6"]


@pytest.mark.parametrize("method", ["reportMetrics", "refreshCache"])
def test_a_method_about_its_own_instance_is_silent(tmp_path: Path, method: str) -> None:
    assert found(tmp_path, jobs(f"{NIGHTLY} void {method}() {{ work(); }}"), "CR701", "CR702") == []


def test_not_in_tests_is_no_condition(tmp_path: Path) -> None:
    code = jobs(f"{NIGHTLY} void nightly() {{ work(); }}", marks='@Profile("!test")')
    assert found(tmp_path, code, "CR701") == ["CR701:6"]


def test_a_lock_of_this_jvm_is_none(tmp_path: Path) -> None:
    imports = IMPORTS.replace("org.redisson.api.RLock", "java.util.concurrent.locks.ReentrantLock")
    code = jobs(f"{NIGHTLY} void nightly() {{ lock.lock(); work(); }}", imports=imports)
    assert found(tmp_path, code, "CR701") == ["CR701:6"]


def test_a_lock_in_a_class_that_is_used_is_respected(tmp_path: Path) -> None:
    code = jobs("private Billing billing;", f"{NIGHTLY} void nightly() {{ billing.run(); }}")
    service = "class Billing { void run() { redisson.getLock(x).tryLock(); } }\n"
    assert found(tmp_path, code, "CR701") == ["CR701:7"]
    assert found(tmp_path, code, "CR701", **{"src/main/java/shop/Billing.java": service}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/main/java/shop/Once.java", '@Aspect class Once { @Around("@annotation(Scheduled)") RLock x; }\n'),
        ("src/main/kotlin/Conf.kt", '@Profile("jobs")\n@EnableScheduling\nclass Conf\n'),
        ("src/main/kotlin/Conf.kt", '@EnableScheduling @Profile("jobs") class Conf\n'),
    ],
)
def test_what_is_around_all_jobs_is_respected(tmp_path: Path, path: str, text: str) -> None:
    assert found(tmp_path, jobs(f"{NIGHTLY} void nightly() {{ work(); }}"), "CR701", "CR702", **{path: text}) == []


def test_an_expression_from_the_settings_may_switch_the_job_off(tmp_path: Path) -> None:
    code = jobs('@Scheduled(cron = "${jobs.nightly}") void nightly() { work(); }')
    report = report_on(tmp_path, {APP: SWITCHED_ON, JOBS: code, "compose.yaml": THREE})
    assert [one.confidence for one in report.findings if one.rule == "CR701"] == [Confidence.MEDIUM]


def test_a_fixed_rate_may_be_meant_for_each_instance(tmp_path: Path) -> None:
    code = jobs("@Scheduled(fixedRate = 5000) void refresh() { work(); }")
    report = report_on(tmp_path, {APP: SWITCHED_ON, JOBS: code, "compose.yaml": THREE})
    assert [(one.rule, one.severity) for one in report.findings if one.rule.startswith("CR70")] == [
        ("CR702", Severity.INFO)
    ]


@pytest.mark.parametrize(
    ("compose", "rule"),
    [
        (THREE, "CR701"),
        (THREE.replace("scale: 3", "scale: 1"), "CR702"),
        (THREE.replace("java, -jar, shop.jar", "python, shop.py"), "CR702"),
        (THREE.replace("[java, -jar, shop.jar]", "sh -c 'exec java $JAVA_OPTS -jar shop.jar'"), "CR701"),
    ],
)
def test_the_number_of_instances_comes_from_what_starts_them(tmp_path: Path, compose: str, rule: str) -> None:
    code = jobs(f"{NIGHTLY} void nightly() {{ work(); }}")
    assert found(tmp_path, code, "CR701", "CR702", **{"compose.yaml": compose}) == [f"{rule}:6"]


def test_replicas_of_another_application_say_nothing(tmp_path: Path) -> None:
    code = jobs(f"{NIGHTLY} void nightly() {{ work(); }}")
    tree = {
        f"billing/{APP}": SWITCHED_ON,
        f"billing/{JOBS}": code,
        f"shop/{APP}": SWITCHED_ON,
        f"shop/{JOBS}": code,
        "shop/compose.yaml": THREE,
    }
    assert findings_in(tmp_path, tree, "CR701") == [f"CR701 shop/{JOBS}:6"]


def test_the_job_without_a_lock_among_those_with_one(tmp_path: Path) -> None:
    code = jobs(
        f"{NIGHTLY} {LOCK} void locked() {{ work(); }}",
        f"{NIGHTLY} void forgotten() {{ work(); }}",
        "@Scheduled(fixedDelay = 5000) void refresh() { work(); }",
    )
    one = {"compose.yaml": THREE.replace("scale: 3", "scale: 1")}
    assert found(tmp_path, code, "CR701", "CR702", app=LOCKS_TOO, **one) == ["CR702:7", "CR702:8"]
    assert found(tmp_path, code, "CR701", "CR702", app=LOCKS_TOO) == ["CR701:7", "CR702:8"]


@pytest.mark.parametrize(
    ("lock", "app", "says"),
    [
        ('@SchedulerLock(name = "a")', LOCKS_TOO, ["CR307:6"]),
        (LOCK, LOCKS_TOO, []),
        ('@SchedulerLock(name = "a", lockAtLeastFor = LEAST)', LOCKS_TOO, []),
        ('@SchedulerLock(name = "a")', LOCKS_TOO.replace('"9m"', '"9m", defaultLockAtLeastFor = "1m"'), []),
    ],
)
def test_a_lock_that_ends_with_the_body(tmp_path: Path, lock: str, app: str, says: list[str]) -> None:
    assert found(tmp_path, jobs(f"{lock} {NIGHTLY} void a() {{ work(); }}"), "CR307", app=app) == says


RECREATED = changed(DEPLOYMENT, "[celery, -A, app, beat]", "[java, -jar, shop.jar]")
SCALER = (
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: beat}\nspec:\n"
    "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: beat}\n  maxReplicas: 5\n"
)


def test_java_that_does_not_parse_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    broken = IMPORTS + "@Scheduled ]]]] %% not java at all ((("
    report = report_on(tmp_path, {JOBS: jobs(f"{NIGHTLY} void a() {{ work(); }}"), "src/main/java/Bad.java": broken})
    assert {str(one.place) for one in report.findings} == {f"{JOBS}:6"}


REDISSON = """\
@Scheduled(cron = "0 0 0 * * *", zone = "UTC") void close() {
        RLock lock = redisson.getLock("close");
        try { if (lock.tryLock(0, 30, TimeUnit.SECONDS)) work(); } finally { UNLOCK }
    }
"""


def test_a_lock_of_redisson_that_is_released_in_the_method_does_not_make_a_slot_run_once(tmp_path: Path) -> None:
    code = jobs("private RedissonClient redisson;", REDISSON.replace("UNLOCK", "lock.unlock();"))
    assert found(tmp_path, code, "CR701", "CR702", "CR307") == ["CR307:9"]
    kept = jobs("private RedissonClient redisson;", REDISSON.replace("UNLOCK", ""))
    assert found(tmp_path / "kept", kept, "CR701", "CR702", "CR307") == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (ops.setIfAbsent(key, me)) try { work(); } finally { redis.delete(key); }", ["CR302 Lock.java:2"]),
        ("if (ops.setIfAbsent(key, me)) { redis.expire(key, 9); work(); redis.delete(key); }", ["CR302 Lock.java:2"]),
        ("if (ops.setIfAbsent(key, me, 9, SECONDS)) {\n work();\n redis.delete(key); }", ["CR301 Lock.java:4"]),
        ("if (ops.setIfAbsent(key, me, of(9)))\n if (me == ops.get(key)) redis.delete(key);", ["CR301 Lock.java:3"]),
        ("if (ops.setIfAbsent(key, me, of(9))) { work(); redis.execute(FREE, key); redis.delete(key); }", []),
        ("ops.setIfAbsent(key, me);", []),
    ],
)  # fmt: skip
def test_a_lock_on_redis_by_hand(tmp_path: Path, body: str, says: list[str]) -> None:
    code = f"class Lock {{\n void run(String key) {{ {body} }}\n}}\n"
    assert findings_in(tmp_path, {"Lock.java": code}, "CR301", "CR302") == says
    assert findings_in(tmp_path / "other", {"Cache.java": code.replace("Lock", "Cache")}, "CR301", "CR302") == []

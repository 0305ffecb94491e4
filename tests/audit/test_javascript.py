"""Jobs of Node: which are found, in how many processes they run, and what keeps them from running in each."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cronce_audit.model import Confidence, Severity
from tests.audit.trees import findings_in, report_on

CLUSTER = {"ecosystem.config.js": "module.exports = { apps: [{ script: './app.js', instances: 4 }] };\n"}
"""Four processes of app.js."""


def everywhere(tmp_path: Path, app: str, **more: str) -> list[str]:
    """What runs in each of four processes of `app`."""
    return findings_in(tmp_path, {**CLUSTER, "app.js": app, **more}, "CR701")


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("import cron from 'node-cron';\ncron.schedule('0 3 * * *', () => work());\n", 2),
        ("import * as cron from 'node-cron';\ncron.schedule('0 3 * * *', function () { work(); });\n", 2),
        ("import { schedule as plan } from 'node-cron';\nplan('0 3 * * *', () => work());\n", 2),
        ("const { schedule: plan } = require('node-cron');\nplan('0 3 * * *', () => work());\n", 2),
        (
            "const cron = require('node-cron');\nconst t = cron.schedule(NIGHTLY, async () => { await work(); });\n",
            2,
        ),
        ('const c_1 = __importDefault(require("node-cron"));\nc_1.default.schedule("0 3 * * *", () => work());\n', 2),
        ('const s = require("node-schedule");\ns.scheduleJob("0 3 * * *", () => work());\n', 2),
        ('const s = require("node-schedule");\ns.scheduleJob("nightly", "0 3 * * *", () => work());\n', 2),
        ('const s_1 = require("node-schedule");\n(0, s_1.scheduleJob)({ hour: 3, minute: 0 }, () => work());\n', 2),
        ("const { CronJob } = require('cron');\nnew CronJob('0 3 * * *', () => work(), null, true);\n", 2),
        (
            "const CronJob = require('cron').CronJob;\nconst j = new CronJob('0 3 * * *', () => work());\nj.start();\n",
            2,
        ),
        (
            "import { CronJob } from 'cron';\nCronJob.from({ cronTime: AT, onTick: () => work(), start: true });\n",
            2,
        ),
        ("import { Cron } from 'croner';\nnew Cron('0 3 * * *', { timezone: 'UTC' }, () => work());\n", 2),
        ("import Cron from 'croner';\nCron('0 3 * * *', () => work());\n", 2),
    ],
)
def test_a_job_of_any_library_runs_in_every_process(tmp_path: Path, code: str, line: int) -> None:
    assert everywhere(tmp_path, code) == [f"CR701 app.js:{line}"]


@pytest.mark.parametrize(
    "code",
    [
        "db.query(`SELECT cron.schedule('nightly', '0 3 * * *', 'VACUUM')`);\n",
        "const cron = require('./cron');\ncron.schedule('0 3 * * *', () => work());\n",
        "const cron = require('pg-cron-client');\ncron.schedule('0 3 * * *', () => work());\n",
        "const cron = require('node-cron');\nawait client.query(\"select cron.schedule('0 3 * * *', $$vacuum$$)\");\n",
        "const cron = require('node-cron');\ncalendar.schedule('0 3 * * *', () => work());\n",
        "const cron = require('node-cron');\nif (!cron.validate('0 3 * * *')) throw new Error();\n",
        "const s = require('node-schedule');\ns.scheduleJob(new Date(2030, 1, 1), () => work());\n",
        "const s = require('node-schedule');\ns.scheduleJob(user.birthday, () => work());\n",
        "const { CronJob } = require('cron');\nnew CronJob('0 3 * * *', () => work());\n",
        "const { CronJob } = require('cron');\nnew CronJob(new Date(2030, 1, 1), () => work(), null, true);\n",
        "const cron = require('node-cron');\ncron.schedule('0 3 * * *', () => work(), { scheduled: false });\n",
        "import { Cron } from 'croner';\nconst next = new Cron('0 3 * * *').nextRun();\n",
        "// cron.schedule('0 3 * * *', () => work());\nconst name = 'node-cron';\n",
        "import { Queue } from 'bullmq';\nnew Queue('q').add('x', {}, { repeat: { pattern: '0 3 * * *' } });\n",
        "import Agenda from 'agenda';\nnew Agenda().every('3 minutes', 'x');\n",
        "const cron = require('node-cron');\ncron.schedule('0 3 * * *', () => work(), { distributed: true });\n",
    ],
)
def test_what_is_no_job_of_this_process_is_silent(tmp_path: Path, code: str) -> None:
    assert findings_in(tmp_path, {**CLUSTER, "app.js": code}, "CR701", "CR702") == []


HEAD = "const cron = require('node-cron');\n"


@pytest.mark.parametrize(
    "code",
    [
        "cron.schedule('0 3 * * *', async () => { await redlock.using(['a'], 5000, () => work()); });\n",
        (
            "const Redlock = require('redlock');\nconst rl = new Redlock([client]);\n"
            "cron.schedule('0 3 * * *', async () => { await rl.using(['k'], 5000, async () => work()); });\n"
        ),
        "cron.schedule('0 3 * * *', async () => { if (await redis.set('k', '1', 'EX', 60, 'NX')) work(); });\n",
        "cron.schedule('0 3 * * *', async () => { if (await redis.set('k', '1', { NX: true, EX: 60 })) work(); });\n",
        "cron.schedule('0 3 * * *', async () => { await db.query('select pg_try_advisory_lock(1)'); work(); });\n",
        (
            "if (process.env.NODE_ENV === 'production' && process.env.NODE_APP_INSTANCE === '0') {\n"
            "  cron.schedule('0 3 * * *', () => work());\n}\n"
        ),
        "function start() {\n  cron.schedule('0 3 * * *', () => work());\n}\nif (process.env.pm_id === '0') start();\n",
    ],
)
def test_a_guard_is_respected(tmp_path: Path, code: str) -> None:
    assert findings_in(tmp_path, {**CLUSTER, "app.js": HEAD + code}, "CR701", "CR702") == []


@pytest.mark.parametrize(
    "code",
    [
        "if (process.env.RUN_CRON) cron.schedule('0 3 * * *', () => work());\n",
        "if (process.env.NODE_ENV === 'prod' && process.env.ROLE === 'a') cron.schedule('0 3 * * *', () => work());\n",
        "config.jobs.enabled && cron.schedule('0 3 * * *', () => work());\n",
        "function start() {\n  if (!isJobNode) return;\n  cron.schedule('0 3 * * *', () => work());\n}\nstart();\n",
        "cron.schedule('0 3 * * *', () => { if (process.env.ROLE !== 'jobs') return; work(); });\n",
        "function add(body) {\n  cron.schedule('0 3 * * *', body);\n}\nadd(work);\n",
        "function add(body) {\n  cron.schedule('0 3 * * *', () => body());\n}\nadd(work);\n",
        "cron.schedule('0 3 * * *', container.resolve('nightly'));\n",
        "cron.schedule('0 3 * * *', () => work(), options);\n",
        "cron.schedule('0 3 * * *', async () => { if ((await Report.find()).isLocked) return; work(); });\n",
        "cron.schedule('0 3 * * *', withLock('nightly', async () => work()));\n",
        (
            "cron.schedule('0 3 * * *', nightly);\nasync function nightly() { await guarded(); }\n"
            "async function guarded() { if (await mutex.tryAcquire()) work(); }\n"
        ),
        "cron.schedule('0 3 * * *', async () => { if (!election.isLeader()) return; work(); });\n",
    ],
)
def test_a_guard_that_cannot_be_judged_is_information_to_look_at(tmp_path: Path, code: str) -> None:
    told = [one for one in report_on(tmp_path, {**CLUSTER, "app.js": HEAD + code}).findings if one.rule != "CR320"]
    assert [(one.rule, one.severity, one.confidence) for one in told] == [("CR702", Severity.INFO, Confidence.LOW)]


def test_a_condition_in_another_file_that_asks_for_a_test_is_none(tmp_path: Path) -> None:
    tree = {
        "app.js": "const { startJobs } = require('./jobs');\nif (config.env !== 'test') startJobs();\n",
        "jobs.js": f"{HEAD}const startJobs = () => {{ cron.schedule('0 3 * * *', () => work()); }};\n",
    }
    assert findings_in(tmp_path, {**CLUSTER, **tree}, "CR701", "CR702") == ["CR701 jobs.js:2"]


SWEEP = "setInterval(() => sweepTokens(), 60_000);\nfunction sweepTokens() { "


@pytest.mark.parametrize(
    ("path", "code", "found"),
    [
        ("jobs/scheduler.js", "setInterval(async () => { await sender.run(); }, 60 * 1000);\n", True),
        ("server.js", "setInterval(() => { runFeeReminders(); }, 30 * 60 * 1000);\n", True),
        ("server.js", "setInterval(runFeeReminders, EVERY);\n", True),
        ("server.js", "setInterval(() => { runFeeReminders(); }, 5_000);\n", False),
        ("server.js", "setInterval(() => { requests.clear(); }, 60_000);\n", False),
        ("jobs/lock.js", "setInterval(() => { this.heartbeat(); }, 60_000);\n", False),
        ("auth.js", f"{SWEEP}this.seen.delete(1); log.info('x'); }}\n", False),
        ("auth.js", f"{SWEEP}Token.remove({{ old: true }}).then(log.info); }}\n", True),
        ("jobs/clock.js", "setInterval(() => { window.alert('reminder'); }, 60_000);\n", False),
        ("server.js", "setInterval(() => { redlock.using(['a'], 5, () => remind()); }, 60_000);\n", False),
    ],
)
def test_a_timer_whose_names_say_that_it_is_a_job_is_one(tmp_path: Path, path: str, code: str, found: bool) -> None:
    told = [one for one in report_on(tmp_path, {path: code}).findings if one.rule != "CR321"]
    assert [(one.rule, one.severity) for one in told] == [("CR702", Severity.INFO)] * found


@pytest.mark.parametrize("path", ["metrics/report.js", "cache.js", "memory.monitor.js"])
def test_a_job_about_its_own_process_is_silent(tmp_path: Path, path: str) -> None:
    assert report_on(tmp_path, {path: HEAD + "cron.schedule('0 3 * * *', () => work());\n"}).findings == []


def test_a_timer_in_several_processes_is_information(tmp_path: Path) -> None:
    told = report_on(tmp_path, {**CLUSTER, "app.js": "setInterval(() => sendReminders(), 3600 * 1000);\n"}).findings
    assert [(one.rule, one.severity) for one in told] == [("CR701", Severity.INFO)]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("if (process.env.NODE_ENV === 'production') {\n  cron.schedule('0 3 * * *', () => work());\n}\n", 3),
        ("let busy = false;\ncron.schedule('0 3 * * *', async () => { if (busy) return; work(); });\n", 3),
        ("cron.schedule('0 3 * * *', () => { /* take the lock */ work(blockchain.clock()); });\n", 2),
        (("const L = require('async-lock');\nconst lock = new L();\n"
         "cron.schedule('0 3 * * *', () => lock.acquire('a', () => work()));\n"), 4),
        ("function start() {\n  cron.schedule('0 3 * * *', () => work());\n}\nstart();\n", 3),
        ("function retry() { return redis.set('k', '1', 'NX'); }\ncron.schedule('0 3 * * *', () => work());\n", 3),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_guard_is_none(tmp_path: Path, code: str, line: int) -> None:
    assert everywhere(tmp_path, HEAD + code) == [f"CR701 app.js:{line}"]


NEST = """\
import { Injectable } from '@nestjs/common';
import { Cron, CronExpression, Interval, Timeout } from '@nestjs/schedule';
import { Billing } from './billing';

@Injectable()
export class Tasks {
  constructor(private readonly billing: Billing) {}

  MARKS
  async nightly() {
    await this.billing.run();
  }
}
"""


def nest(tmp_path: Path, marks: str, billing: str = "export class Billing { async run() {} }\n") -> list[str]:
    tree = {
        "ecosystem.config.js": "module.exports = { apps: [{ script: 'dist/main.js', instances: 'max' }] };\n",
        "package.json": "{}\n",
        "src/main.ts": "import { Tasks } from './tasks';\n",
        "src/tasks.ts": NEST.replace("MARKS", marks),
        "src/billing.ts": billing,
    }
    return findings_in(tmp_path, tree, "CR701", "CR702")


def test_a_cron_method_of_nest_runs_in_every_process(tmp_path: Path) -> None:
    assert nest(tmp_path, "@Cron(CronExpression.EVERY_DAY_AT_3AM)") == ["CR701 src/tasks.ts:9"]


@pytest.mark.parametrize(
    "marks",
    [
        "@Cron('0 3 * * *') @DistributedLock('nightly', 5000)",
        "@Interval(1000)",
        "@Timeout(1000)",
        "@OnEvent('cron')",
    ],
)
def test_other_methods_of_nest_are_silent(tmp_path: Path, marks: str) -> None:
    assert nest(tmp_path, marks) == []


@pytest.mark.parametrize(
    ("marks", "rule"),
    [("@Cron('0 3 * * *', { disabled: !process.env.JOBS })", "CR702"), ("@Interval(60_000)", "CR701")],
)
def test_methods_of_nest_that_are_told_as_information(tmp_path: Path, marks: str, rule: str) -> None:
    assert nest(tmp_path, marks) == [f"{rule} src/tasks.ts:9"]


def test_a_lock_in_the_service_that_a_method_uses_is_respected(tmp_path: Path) -> None:
    service = "export class Billing { async run() { await this.redlock.acquire(['b'], 1000); } }\n"
    assert nest(tmp_path, "@Cron('0 3 * * *')", service) == []


def test_a_lock_on_another_method_that_is_called_is_respected(tmp_path: Path) -> None:
    code = """\
        import { Cron } from '@nestjs/schedule';
        export class Tasks {
          @Cron('0 3 * * *')
          nightly() { this.run(); }
          @BatchLock({ name: 'nightly' })
          run() {}
        }
        """
    assert findings_in(tmp_path, {"tasks.ts": code}, "CR702") == []


def test_where_nothing_says_that_there_are_several_it_is_information(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"app.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n"})
    assert [(one.rule, one.severity) for one in report.findings] == [("CR320", Severity.INFO), ("CR702", Severity.INFO)]


def test_a_program_that_runs_once_beside_one_that_runs_often_is_told_apart(tmp_path: Path) -> None:
    tree = {
        "pm2.config.js": """\
            module.exports = { apps: [
              { script: 'server.js', instances: 'max', exec_mode: 'cluster' },
              { script: 'worker.js', instances: 1 },
            ] };
            """,
        "server.js": "const db = require('./db');\nrequire('./shared/report');\n",
        "worker.js": "require('./nightly');\nrequire('./shared/report');\n",
        "db.js": "",
        "nightly.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n",
        "shared/report.js": HEAD + "cron.schedule('*/5 * * * *', () => work());\n",
    }
    assert findings_in(tmp_path, tree, "CR701") == ["CR701 shared/report.js:2"]


def test_a_program_that_is_kept_at_one_process_is_silent(tmp_path: Path) -> None:
    tree = {"app.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n"}
    kept = '{ "apps": [{ "script": "app.js", "instances": 1 }] }'
    assert len(findings_in(tmp_path, {**tree, "pm2.json": kept}, "CR702")) == 0
    assert len(findings_in(tmp_path, {"pm2.json": kept.replace(', "instances": 1', "")}, "CR702")) == 1
    assert len(findings_in(tmp_path, {"pm2.json": kept.replace("app.js", "other.js")}, "CR702")) == 1


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("pm2.json", '{ "apps": [{ "script": "app.js", "instances": 4 }] }', True),
        ("ecosystem.config.cjs", "module.exports = { apps: { script: 'app.js', instances: '-1' } };", True),
        (
            "ecosystem.config.mjs",
            "export default { apps: [{ script: './app', instances: 2 }] };",
            True,
        ),
        ("pm2.json", '{ "apps": [{ "script": "app.js", "instances": 1 }] }', False),
        ("pm2.json", '{ "apps": [{ "script": "app.js" }] }', False),
        ("pm2.json", '{ "apps": [{ "script": "other.js", "instances": 4 }] }', False),
        ("pm2.json", '{ "apps": ', False),
        ("settings.json", '{ "apps": [{ "script": "app.js", "instances": 4 }] }', False),
        ("ecosystem.config.js", "module.exports = { apps: [{ script: 'app.js', instances: process.env.N }] };", False),
    ],
)
def test_ecosystem_files_of_pm2(tmp_path: Path, path: str, text: str, found: bool) -> None:
    tree = {path: text, "app.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n", "other.js": ""}
    assert findings_in(tmp_path, tree, "CR701") == (["CR701 app.js:2"] if found else [])


def test_a_file_that_nothing_starts_is_not_in_every_process(tmp_path: Path) -> None:
    other = {"seed.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n"}
    assert findings_in(tmp_path, {**CLUSTER, "app.js": "require('./x');\n", "x.js": "", **other}, "CR701") == []


@pytest.mark.parametrize(
    ("main", "more", "confidence"),
    [
        ("import './jobs.js';\n", {}, Confidence.HIGH),
        ("import '@/jobs';\n", {}, Confidence.HIGH),
        ("import '@/jobs';\n", {"test-bench/jobs.ts": ""}, Confidence.MEDIUM),
        ("for (const file of readdirSync('.')) require(file);\n", {}, Confidence.MEDIUM),
    ],
)
def test_how_sure_it_is_depends_on_how_the_file_is_loaded(
    tmp_path: Path, main: str, more: dict[str, str], confidence: Confidence
) -> None:
    tree = {
        "package.json": '{ "scripts": { "prod": "pm2-runtime start dist/main.js -i 4" } }\n',
        "src/main.ts": main,
        "src/jobs.ts": "import cron from 'node-cron';\ncron.schedule('0 3 * * *', () => work());\n",
        **more,
    }
    found = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR701"]
    assert [(str(one.place), one.confidence) for one in found] == [("src/jobs.ts:2", confidence)]
    assert "pm2 starts 4 of it (package.json:1)" in found[0].message


def test_of_two_programs_that_load_what_is_not_seen_neither_is_blamed(tmp_path: Path) -> None:
    tree = {
        "package.json": '{ "scripts": { "a": "pm2 start web.js -i 4", "b": "pm2 start jobs.js -i 1" } }\n',
        "web.js": "for (const file of readdirSync('.')) require(file);\n",
        "jobs.js": "for (const file of readdirSync('.')) require(file);\n",
        "jobs/nightly.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n",
    }
    assert findings_in(tmp_path, tree, "CR701") == []


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ('command: ["node", "app.js"]', True),
        ("command: node --enable-source-maps ./app.js", True),
        ("command: sh -c 'exec npm start'", True),
        ("command: npm run serve", True),
        ("command: pm2-runtime start app.js", True),
        ("command: node other.js", False),
        ("command: npm run nothing", False),
    ],
)
def test_replicas_of_a_service_are_processes_too(tmp_path: Path, start: str, found: bool) -> None:
    tree = {
        "compose.yaml": f"services:\n  web:\n    image: web\n    {start}\n    deploy:\n      replicas: 3\n",
        "package.json": '{ "scripts": { "start": "npm run serve", "serve": "NODE_ENV=production node app.js" } }\n',
        "app.js": HEAD + "cron.schedule('0 3 * * *', () => work());\n",
        "other.js": "",
    }
    assert findings_in(tmp_path, tree, "CR701") == (["CR701 app.js:2"] if found else [])


JOB = "cron.schedule('0 3 * * *', () => work());"


def test_code_that_was_packed_is_not_read(tmp_path: Path) -> None:
    packed = HEAD.replace("\n", "") + JOB + "x" * 3000
    tree = {**CLUSTER, "app.js": packed, "app.min.js": HEAD + JOB, "types.d.ts": HEAD + JOB}
    assert findings_in(tmp_path, tree, "CR701", "CR702") == []


def test_code_that_is_nested_too_deeply_is_reported(tmp_path: Path) -> None:
    deep = HEAD + "if (x) {\n" * 1100 + JOB + "}\n" * 1100
    report = report_on(tmp_path, {"app.js": deep, "other.js": HEAD + JOB})
    assert {str(one.place) for one in report.findings} == {"other.js:2"}
    assert [(one.place.path, one.why) for one in report.unparsed] == [("app.js", "javascript: it is nested too deeply")]


@pytest.mark.parametrize("given", ["export default match;", "export { match };", "module.exports = match;"])
def test_a_job_that_another_file_starts_is_told_where_it_is_made(tmp_path: Path, given: str) -> None:
    tree = {
        "match.ts": f"import {{ CronJob }} from 'cron'\nconst match = new CronJob('0 1 * * *', () => pay())\n{given}\n",
        "index.ts": "import match from './match';\nmatch.start();\n",
    }
    assert findings_in(tmp_path, tree, "CR702") == ["CR702 match.ts:2"]
    unused = {"match.ts": tree["match.ts"].replace(given, "")}
    assert findings_in(tmp_path / "unused", unused, "CR702") == []


LOCAL = """\
export class ImportLockService {
  private isLocked = false;
  tryAcquire() { if (this.isLocked) return false; this.isLocked = true; return true; }
}
"""
SHARED = """\
export class ImportLockService {
  constructor(private readonly redis: Redis) {}
  async tryAcquire() { return await this.redis.set('import', 1, 'EX', 60, 'NX'); }
}
"""


@pytest.mark.parametrize(("service", "says"), [(LOCAL, ["CR702 jobs.ts:7"]), (SHARED, [])])
def test_a_lock_of_the_tree_that_asks_no_server_is_one_of_its_process(
    tmp_path: Path, service: str, says: list[str]
) -> None:
    job = """\
import { Cron } from '@nestjs/schedule';
import { ImportLockService } from './import-lock.service';

export class Jobs {
  constructor(private readonly locks: ImportLockService) {}

  @Cron('0 0 */2 * * *')
  async load() { if (await this.locks.tryAcquire()) await run(); }
}
"""
    tree = {"jobs.ts": job, "import-lock.service.ts": service, "package.json": "{}"}
    assert findings_in(tmp_path, tree, "CR702") == says


NIGHTLY = (
    "import cron from 'node-cron';\nexport function startJobs() {\n  cron.schedule('0 3 * * *', () => work());\n}\n"
)


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"src/app.js": "import { startJobs } from './jobs/nightly';\nstartJobs();\n"}, 1),
        ({"src/app.js": "import { startJobs } from './jobs/nightly';\nserver.listen(80, startJobs);\n"}, 1),
        ({"src/app.js": "import { startJobs } from './jobs/nightly';\n// startJobs();\n"}, 0),
        ({"src/app.js": "import './routes';\nstartJobs();\n"}, 0),
        ({"src/app.js": "for (const file of files) require(file);\n"}, 1),
        ({"src/app.js": "startJobs();\n", "Procfile": "worker: node src/jobs/nightly.js\n"}, 1),
    ],
    ids=["called", "handed on", "a comment", "never loaded", "loads what is not spelled out", "a program of its own"],
)
def test_a_job_that_nothing_starts_is_not_told(tmp_path: Path, tree: Mapping[str, str], says: int) -> None:
    found = findings_in(tmp_path, {"package.json": "{}", "src/jobs/nightly.js": NIGHTLY, **tree}, "CR702")
    assert len(found) == says


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (!this.isRunning) return; await work();", 1),
        ("if (this.isRunning) return; this.isRunning = true; await work();", 0),
        ("work().catch(report);", 1),
        ("report();", 0),
    ],
    ids=["the timer is on", "a run sets it", "a promise", "waits for nothing"],
)
def test_a_flag_keeps_runs_apart_where_a_run_sets_it(tmp_path: Path, body: str, says: int) -> None:
    code = f"import cron from 'node-cron';\ncron.schedule('* * * * *', async () => {{ {body} }});\n"
    assert len(findings_in(tmp_path, {"app.js": code}, "CR321")) == says


@pytest.mark.parametrize(("when", "says"), [("parseInterval(60)", 1), ("EVERY_MINUTE", 1), ("user.birthday", 0)])
def test_a_plan_of_node_schedule_may_be_made_elsewhere(tmp_path: Path, when: str, says: int) -> None:
    code = f"const s = require('node-schedule');\ns.scheduleJob({when}, () => work());\n"
    assert len(findings_in(tmp_path, {"app.js": code}, "CR702")) == says


def test_a_row_that_may_be_there_already_is_no_lock(tmp_path: Path) -> None:
    body = "await send(row); await db.from('log').upsert(row, { onConflict: 'id' });"
    code = f"import cron from 'node-cron';\ncron.schedule('0 3 * * *', async () => {{ {body} }});\n"
    assert findings_in(tmp_path, {"app.js": code}, "CR702") == ["CR702 app.js:2"]


ASKED = """\
const cron = require('node-cron');
async function scheduleJob(pattern, url) {
  const id = await save(pattern, url);
  cron.schedule(pattern, async () => { await fetch(url); });
  return id;
}
module.exports = { scheduleJob };
"""


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ASKED, ["CR323 jobs.js:4"]),
        (ASKED + "load().then(rows => rows.forEach(row => scheduleJob(row.pattern, row.url)));\n", []),
        (ASKED.replace("scheduleJob", "safely"), []),
        (ASKED.replace("cron.schedule(pattern", "cron.schedule('0 3 * * *'"), []),
    ],
    ids=["planned by a request", "planned again at the start", "a helper", "a pattern of its own"],
)
def test_a_plan_that_others_ask_for_is_in_memory(tmp_path: Path, code: str, says: list[str]) -> None:
    assert findings_in(tmp_path, {"jobs.js": code}, "CR323") == says


@pytest.mark.parametrize(
    ("body", "says"),
    [("console.log('alive at ' + new Date());", 0), ("logger.info('begin'); work();", 1)],
    ids=["a line in a log", "work"],
)
def test_a_job_that_only_logs_may_run_anywhere(tmp_path: Path, body: str, says: int) -> None:
    code = f"import cron from 'node-cron';\ncron.schedule('0 3 * * *', () => {{ {body} }});\n"
    assert len(findings_in(tmp_path, {"app.js": code}, "CR702")) == says


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for (const [key, one] of sessions) if (one.until < Date.now()) sessions.delete(key);", 0),
        ("sessions.forEach((one, key) => drop(key));", 0),
        ("sessions.clear(); mailer.send();", 1),
        ("sessions.forEach((one) => one.user.notify());", 1),
    ],
)
@pytest.mark.parametrize("made", ["const sessions = new Map();", "let sessions = [];", "const sessions = {}"])
def test_a_timer_over_the_memory_of_its_process_is_each_processes_own(
    tmp_path: Path, body: str, says: int, made: str
) -> None:
    code = f"""\
import mailer from './mailer';
{made}
function drop(key) {{ sessions.delete(key); }}
setInterval(() => {{ {body} }}, 60 * 60 * 1000);
"""
    tree = {"sync-reports.js": code, "package.json": '{"scripts": {"start": "node sync-reports.js"}}'}
    assert len(findings_in(tmp_path, tree, "CR702")) == says


def test_rows_that_are_claimed_for_update_keep_others_out(tmp_path: Path) -> None:
    body = 'await db.query("SELECT id FROM mails WHERE due FOR UPDATE SKIP LOCKED"); await send();'
    code = f"import cron from 'node-cron';\ncron.schedule('0 3 * * *', async () => {{ {body} }});\n"
    assert findings_in(tmp_path, {"app.js": code}, "CR702") == []


def test_a_job_in_a_constructor_that_is_given_services_is_planned_once(tmp_path: Path) -> None:
    code = """\
import * as s from 'node-schedule';
export class Jobs {
  constructor(private readonly queue: Queue) {
    s.scheduleJob(CronExpression.EVERY_HOUR, () => this.queue.fill());
  }
}
"""
    assert findings_in(tmp_path, {"jobs.ts": code}, "CR702") == ["CR702 jobs.ts:4"]


@pytest.mark.parametrize(
    ("body", "says"),
    [("await sendReports(cache)", 1), ("sendReports(cache)", 0)],
    ids=["waits for others", "may be about its own memory"],
)
def test_a_timer_that_waits_is_about_its_process_by_its_own_name_only(tmp_path: Path, body: str, says: int) -> None:
    code = f"import {{ sendReports }} from './reports';\nsetInterval(async () => {{ {body} }}, 3600000);\n"
    assert len(findings_in(tmp_path, {"app.js": code}, "CR702")) == says

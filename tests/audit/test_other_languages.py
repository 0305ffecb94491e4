"""Jobs of Go, Ruby and PHP: who fires in every copy, and what keeps it to one."""

from pathlib import Path

import pytest

from cronce_audit.model import Severity
from tests.audit.trees import findings_in, report_on

GO = """\
package main

import (
    "net/http"
    "github.com/robfig/cron/v3"
)

func main() {
    c := cron.New()
    c.AddFunc("0 9 * * *", sendMails)
    // c.AddFunc("0 10 * * *", sendMore)
    c.Start()
    http.ListenAndServe(":80", nil)
}
"""
GOCRON = """\
package jobs

import "github.com/go-co-op/gocron/v2"

func Plan() {
    s, _ := gocron.NewScheduler()
    s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(bill))
}
"""
SERVER = 'package main\n\nfunc main() { gin.Default().Run(":80") }\n'
RUFUS = """\
scheduler = Rufus::Scheduler.new
# scheduler.cron '0 1 * * *' do
scheduler.every "12h" do
  Invoice.send_all
end
"""
KERNEL = """\
<?php
use Illuminate\\Console\\Scheduling\\Schedule;

class Kernel {
    protected function schedule(Schedule $schedule) {
        // $schedule->command('inspire')->hourly();
        $schedule->command('bills:send')->dailyAt('01:00')%s;
        $schedule->call(function () { $this->sweep(); })
            ->everyMinute()%s;
    }
}
"""


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"main.go": GO}, ["CR702 main.go:10"]),
        ({"main.go": SERVER, "jobs/plan.go": GOCRON}, ["CR702 jobs/plan.go:7"]),
        ({"config/initializers/scheduler.rb": RUFUS}, ["CR702 config/initializers/scheduler.rb:3"]),
        ({"app/Console/Kernel.php": KERNEL % ("", "->withoutOverlapping()")}, ["CR702 app/Console/Kernel.php:7"]),
        (
            {"app/Console/Kernel.php": KERNEL % ("->onOneServer()", "->onOneServer()")},
            ["CR321 app/Console/Kernel.php:8"],
        ),
        (
            {
                "routes/console.php": "<?php\nuse Illuminate\\Support\\Facades\\Schedule;\n"
                "Schedule::command('a:b')->daily();\n"
            },
            ["CR702 routes/console.php:3"],
        ),
    ],
)
def test_a_job_that_runs_in_every_copy_is_worth_knowing(
    tree: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    found = report_on(tmp_path, tree).findings
    assert [f"{one.rule} {one.place}" for one in found] == expected
    assert {one.severity for one in found} == {Severity.INFO}


@pytest.mark.parametrize(
    "tree",
    [
        {"main.go": GO.replace("ListenAndServe", "Get")},
        {"main.go": GO, "locks.go": 'package main\n\nimport "github.com/go-redsync/redsync/v4"\n'},
        {
            "main.go": SERVER,
            "plan.go": GOCRON.replace("NewScheduler()", "NewScheduler(gocron.WithDistributedLocker(l))"),
        },
        {"main.go": GO.replace("    c.AddFunc", "    // c.AddFunc", 1)},
        {"config/initializers/scheduler.rb": RUFUS.replace("scheduler.every", "# scheduler.every")},
        {"app/Console/Kernel.php": KERNEL % ("->onOneServer()", "->withoutOverlapping()->onOneServer()")},
        {"app/Models/Plan.php": "<?php\n$schedule->command('x')->daily();\n"},
    ],
)
def test_one_copy_a_shared_lock_or_no_job_is_silent(tree: dict[str, str], tmp_path: Path) -> None:
    assert findings_in(tmp_path, tree) == []


def test_a_scheduler_of_rust_fires_in_every_process(tmp_path: Path) -> None:
    code = 'use tokio_cron_scheduler::Job;\nlet job = Job::new_async("0 0 7 * * *", |_, _| {});\n'
    assert findings_in(tmp_path, {"src/jobs.rs": code}, "CR702") == ["CR702 src/jobs.rs:2"]


@pytest.mark.parametrize(
    ("spec", "more", "says"),
    [
        ("task.Spec", "", 1),
        ("task.Spec", "if isRunning { return }", 0),
        ("task.Spec", "cron.SkipIfStillRunning(logger)", 0),
        ('"0 9 * * *"', "", 0),
    ],
)
def test_a_plan_that_others_write_may_be_too_close(tmp_path: Path, spec: str, more: str, says: int) -> None:
    code = GO.replace('c.AddFunc("0 9 * * *", sendMails)', f"c.AddFunc({spec}, sendMails)\n    {more}")
    assert len(findings_in(tmp_path, {"main.go": code}, "CR321")) == says

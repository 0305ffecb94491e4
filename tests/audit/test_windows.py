"""Tasks of Windows' Task Scheduler that are there twice, or run beside themselves."""

from pathlib import Path

import pytest

from cronce_audit.engine import audit
from cronce_audit.windows import Task
from tests.audit.trees import YEAR, findings_in, report_on

REPEATS = "<Repetition><Interval>PT5M</Interval></Repetition>"


def task(
    *,
    uri: str = "",
    at: str = "2024-01-01T03:00:00",
    arguments: str = "sync.ps1",
    policy: str = "IgnoreNew",
    inner: str = "",
    enabled: str = "true",
    user: str = "S-1-5-18",
    kind: str = "CalendarTrigger",
) -> str:
    registered = f"<URI>{uri}</URI>" if uri else ""
    return f"""\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Author>x</Author>{registered}</RegistrationInfo>
  <Triggers>
    <{kind}>
      {inner}<StartBoundary>{at}</StartBoundary>
      <Enabled>true</Enabled>
      <ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay>
    </{kind}>
  </Triggers>
  <Principals><Principal id="A"><UserId>{user}</UserId></Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>{policy}</MultipleInstancesPolicy>
    <Enabled>{enabled}</Enabled>
  </Settings>
  <Actions Context="A">
    <Exec>
      <Command>C:\\app\\run.exe</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
"""


def once(at: str) -> str:
    inner = "<ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay>"
    return task(at=at, kind="TimeTrigger").replace(inner, "")


def every_other(at: str) -> str:
    return task(at=at).replace("<DaysInterval>1<", "<DaysInterval>2<")


def weekly(day: str) -> str:
    week = f"<ScheduleByWeek><WeeksInterval>1</WeeksInterval><DaysOfWeek><{day} /></DaysOfWeek></ScheduleByWeek>"
    return task().replace("<ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay>", week)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (task(), task(), True),
        (task(), task(at="2025-07-07T03:00:00"), True),
        (task(uri="\\a"), task(uri="\\b"), True),
        (task(uri="\\a"), task(uri="\\A"), False),
        (task(), task(at="2024-01-01T04:00:00"), False),
        (task(), task(arguments="other.ps1"), False),
        (task(), task(user="S-1-5-19"), False),
        (task(), task(enabled="false"), False),
        (task(kind="LogonTrigger"), task(kind="LogonTrigger"), False),
        (task(), "<Task/>", False),
        (once("2024-01-01T03:00:00"), once("2024-01-02T03:00:00"), False),
        (once("2024-01-01T03:00:00"), once("2024-01-01T03:00:00"), True),
        (every_other("2024-01-01T03:00:00"), every_other("2024-01-02T03:00:00"), False),
        (every_other("2024-01-01T03:00:00"), every_other("2024-01-01T03:00:00"), True),
        (task(), task().replace("      <Enabled>true</Enabled>\n", "\n", 1), True),
        (task(), task().replace("C:\\app\\run.exe", "c:\\APP\\Run.exe"), True),
        (weekly("Monday"), weekly("Tuesday"), False),
        (weekly("Monday"), weekly("Monday"), True),
        (task(arguments="-A"), task(arguments="-a"), False),
        (task(), task().replace("<Enabled>true</Enabled>", "<Enabled>false</Enabled>", 1), False),
        (*[task().replace("<Enabled>true</Enabled>", "<Enabled>false</Enabled>", 1)] * 2, False),
    ],
)
def test_a_task_that_is_there_twice_is_found(tmp_path: Path, first: str, second: str, found: bool) -> None:
    tree = {"a.xml": first, "b.xml": second}
    assert findings_in(tmp_path, tree, "CR420") == (["CR420 b.xml:18"] if found else [])


def test_tasks_of_different_folders_without_a_name_are_not_compared(tmp_path: Path) -> None:
    assert findings_in(tmp_path, {"test/a.xml": task(), "prod/a.xml": task()}, "CR420") == []


def test_utf_16_as_windows_exports_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(task().replace("\n", "\r\n").encode("utf-16"))
    report = audit(tmp_path, ["a.xml"], YEAR)
    (found,) = report.facts.of(Task)
    assert (found.place.line, found.action, report.unparsed) == (18, ("c:\\app\\run.exe", "sync.ps1"), [])


def test_a_broken_export_is_told_and_other_xml_is_not(tmp_path: Path) -> None:
    broken = task().replace("</Task>", "")
    report = report_on(tmp_path, {"a.xml": broken, "b.xml": "<x", "c.xml": f"<!DOCTYPE x [<!ENTITY a 'b'>]>{task()}"})
    assert [(str(one.place), one.why) for one in report.unparsed] == [("a.xml:23", "task: this is not well-formed XML")]

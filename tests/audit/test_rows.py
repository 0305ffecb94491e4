"""Rows that a job takes by a second command. The page of CR309 has more samples."""

from pathlib import Path

import pytest

from tests.audit.trees import findings_in

MAILS = """\
def send_due(session):
    for mail in session.query(Mail).filter(Mail.status == "pending"):
        send_mail(mail.address)
        mail.status = "sent"
        session.commit()
"""
RUBY = """\
def send_due
  Mail.where(status: "pending").each do |mail|
    Mailer.send_mail(mail)
    mail.update(status: "sent")
  end
end
"""
RECORDED = """\
def nightly(session):
    if session.query(Run).filter(Run.status == "running").first():
        return
    session.add(Run(status="running"))
"""
CALLED = """\
def send_due(session):
    for mail in session.query(Mail).filter(Mail.status == "pending"):
        deliver(session, mail)


def deliver(session, mail):
    send_mail(mail.address)
    mail.status = "sent"
"""
PAUSED = """\
async function sendDue() {
  const due = await Mail.find({ status: 'pending' });
  for (const mail of due) {
    await sendMail(mail.address);
    await clock.delay(1000);
  }
}
"""


def found(folder: Path, path: str, text: str) -> list[str]:
    return [line.split(" ")[1].rstrip(":") for line in findings_in(folder, {path: text}, "CR309")]


@pytest.mark.parametrize(
    ("path", "text"),
    [("jobs.py", MAILS), ("jobs/mails.rb", RUBY), ("jobs.py", RECORDED), ("jobs.py", CALLED), ("other.py", MAILS)],
    ids=["marked after the work", "Ruby", "a run that is looked for", "marked in a function", "by the function's name"],
)
def test_rows_that_are_read_as_due_and_marked_later_are_found(tmp_path: Path, path: str, text: str) -> None:
    assert found(tmp_path, path, text) == [f"{path}:2"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("controllers/mails.py", MAILS),
        ("jobs.py", MAILS.replace("session.query(Mail)", "session.query(Mail).with_for_update()")),
        ("jobs.py", MAILS.replace("mail.status =", "if claim(mail): mail.status =")),
        ("jobs.py", MAILS.replace("        send_mail(mail.address)\n", "").replace("ail", "atter")),
        ("jobs.py", MAILS.replace('Mail.status == "pending"', "Mail.id == 7")),
        ("jobs.py", RECORDED.replace("        return\n", "        pass\n")),
        ("other.py", MAILS.replace("send_due", "statistics")),
        ("jobs.py", MAILS.replace("pending", "active")),
        ("jobs.py", CALLED.replace("    send_mail", "    if not claim(mail):\n        return\n    send_mail")),
        ("jobs/mails.js", PAUSED),
    ],
    ids=[
        "answers requests",
        "locked",
        "claimed",
        "no work",
        "one row by its key",
        "does not return",
        "no job",
        "a state that stays",
        "claimed in a function",
        "a pause",
    ],
)
def test_nothing_is_said_of_rows_that_no_other_can_take(tmp_path: Path, path: str, text: str) -> None:
    assert found(tmp_path, path, text) == []


ON_RECORD = """\
async function remindAll(rows) {
  for (const row of rows) {
    const already = await db.from('notifications').select('id').eq('row', row.id).maybeSingle()
    if (already) continue
    await sendMail(row.address)
    await db.from('notifications').insert({ row: row.id })
  }
}
"""
IN_RUST = """\
pub async fn run_reminders(db: &Db) -> Result<(), Error> {
    let due = repo::due(db).await?;
    if !due.is_empty()
        && !notifications::exists_since(db, "DUE", today()).await?
    {
        notifications::create_and_dispatch(db, "DUE").await?;
    }
    Ok(())
}
"""
IN_BRACKETS = """\
def renew_due(db):
    for sub in subscriptions(db):
        dup = (
            db.query(Payment)
            .filter(Payment.order == sub.order)
            .first()
        )
        if dup:
            continue
        charge(sub)
        db.add(Payment(order=sub.order))
"""


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [("jobs/mails.js", ON_RECORD, 3), ("src/scheduler.rs", IN_RUST, 3), ("tasks.py", IN_BRACKETS, 3)],
    ids=["JavaScript", "a condition in Rust", "brackets in Python"],
)
def test_a_record_that_is_looked_for_and_written_after_the_work_is_found(
    tmp_path: Path, path: str, text: str, line: int
) -> None:
    assert found(tmp_path, path, text) == [f"{path}:{line}"]


@pytest.mark.parametrize(
    "text",
    [
        ON_RECORD.replace("if (already) continue", "if (!already) continue"),
        ON_RECORD.replace("    await sendMail(row.address)\n", "").replace("notifications", "runs"),
        ON_RECORD.replace("    const already", "    await redlock.acquire(row.id)\n    const already"),
        ON_RECORD.replace("already", "owner").replace("notifications", "users"),
    ],
    ids=["skipped where none is there", "no work", "locked", "no record of work"],
)
def test_nothing_is_said_of_a_row_that_is_no_record_of_the_work(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "jobs/mails.js", text) == []

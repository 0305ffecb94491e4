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
    for mail in session.query(Mail).filter(Mail.status == "approved"):
        deliver(session, mail)


def deliver(session, mail):
    send_mail(mail.address)
    mail.status = "sent"
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
    ],
    ids=["answers requests", "locked", "claimed", "no work", "one row by its key", "does not return", "no job"],
)
def test_nothing_is_said_of_rows_that_no_other_can_take(tmp_path: Path, path: str, text: str) -> None:
    assert found(tmp_path, path, text) == []

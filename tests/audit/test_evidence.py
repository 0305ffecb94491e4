"""What the checklists draw on: signs in files, and rules about several processes."""

from pathlib import Path

from cronce_audit import checklist
from cronce_audit import evidence as scheduled
from cronce_audit.evidence import SIGNS
from cronce_audit.model import rules


def test_every_rule_about_processes_is_about_several_of_them_but_a_few() -> None:
    about = {rule.name for rule in rules().values() if rule.id.startswith("CR2")}
    assert about - set(scheduled.SEVERAL_PROCESSES) == {scheduled.INSIDE}


def test_every_sign_is_asked_about() -> None:
    folder = Path(checklist.__file__).parent
    text = " ".join(path.read_text() for path in folder.glob("*.py"))
    assert [sign.what for sign in SIGNS if text.count(f'"{sign.what}"') < 2] == []

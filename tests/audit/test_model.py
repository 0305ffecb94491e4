"""All rules and readers that there are."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cronce_audit
from cronce_audit.model import rules


def test_a_name_is_that_of_one_rule_as_an_id_is() -> None:
    names = Counter(rule.name for rule in rules().values())
    assert [name for name, times in names.items() if times > 1] == []


def test_every_reader_is_known_in_a_program_that_imports_nothing_else() -> None:
    """The reader of Dockerfiles was once loaded only because another module needed a function of its file."""
    asked = "from cronce_audit.model import readers; print(*(one.name for one in readers()), sep=chr(10))"
    known = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    folder = Path(cronce_audit.__file__).parent
    declared = [re.findall(r'^@reader\("([^"]+)"', path.read_text(), re.MULTILINE) for path in folder.rglob("*.py")]
    assert {name for names in declared for name in names} - {*known.splitlines()} == set()

"""All rules and readers that there are."""

from collections import Counter

from cronce_audit.model import rules


def test_a_name_is_that_of_one_rule_as_an_id_is() -> None:
    names = Counter(rule.name for rule in rules().values())
    assert [name for name, times in names.items() if times > 1] == []

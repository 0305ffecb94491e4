"""A Django project with jobs: its own tests pass."""

from pathlib import Path

from tests.integrations.django.projects import Project


def test_the_tests_of_a_project_pass(tmp_path: Path, database: dict[str, object]) -> None:
    project = Project(tmp_path, database, store="default?schema=cronce")
    code, out = project.call("test", "tests.integrations.django.site.suite")
    assert code == 0, out
    assert "Ran 18 tests" in out

"""What runs in a container: the words of an image or a service, an override, a script of the tree."""

from pathlib import Path

import pytest

from tests.audit.containers.made import dockerfile, found, service


def test_earlier_stages_do_not_count(tmp_path: Path) -> None:
    tree = dockerfile("CMD celery -A shop beat", "FROM python:3.12-slim", 'CMD ["celery", "-A", "shop", "beat"]')
    assert found(tmp_path, tree) == []


def test_the_shell_of_a_service_is_that_of_the_image_it_builds(tmp_path: Path) -> None:
    over = service("command: sh -c 'rq worker'", image="build: {context: ., dockerfile: docker/Dockerfile}")
    assert found(tmp_path, over | {"docker/Dockerfile": "FROM alpine\n"}) == []
    assert found(tmp_path, over | {"docker/Dockerfile": "FROM debian\n"}) == ["CR601 compose.yaml:4"]


def test_what_an_image_says_is_told_once_and_not_where_every_service_has_an_init(tmp_path: Path) -> None:
    image = dockerfile("CMD celery -A shop beat")
    assert found(tmp_path, image | service("tty: true", image="build: .")) == ["CR601 Dockerfile:2"]
    assert found(tmp_path, image | service("init: true", image="build: .")) == []


def test_an_override_is_laid_over_the_file_beside_it(tmp_path: Path) -> None:
    base = service("command: sh -c 'rq worker'", image="image: python:3.12-slim")
    assert found(tmp_path, base | {"compose.prod.yaml": "services:\n  it:\n    init: true\n"}) == []
    over = "services:\n  it:\n    command: sh -c 'true; rq worker'\n"
    assert found(tmp_path, base | {"compose.prod.yaml": over}) == ["CR601 compose.prod.yaml:3", "CR601 compose.yaml:4"]


ENTRY = ("COPY entrypoint.sh /entrypoint.sh", 'ENTRYPOINT ["/entrypoint.sh"]')


@pytest.mark.parametrize(
    ("script", "command", "expected"),
    [
        ("celery -A shop beat", "[]", ["CR601 entrypoint.sh:2"]),
        ("exec celery -A shop beat", "[]", []),
        ("exec gosu app celery -A shop beat", "[]", []),
        ("celery -A shop beat &\nexec gunicorn shop", "[]", ["CR601 entrypoint.sh:2"]),
        ('if [ "$1" = beat ]; then\n  celery -A shop beat\nfi', '["beat"]', ["CR601 entrypoint.sh:3"]),
        ('"$@"', '["rq", "worker"]', ["CR601 entrypoint.sh:2"]),
        ('gosu app "$@"', '["rq", "worker"]', ["CR601 entrypoint.sh:2"]),
        ('exec "$@"', '["rq", "worker"]', []),
        ('exec gosu app "$@"', '["rq", "worker"]', []),
        ('exec "$@"', "rq worker", ["CR601 Dockerfile:4"]),
        ('exec tini -- "$@"', "rq worker", []),
        ('"$@"\n# the end\n', '["rq", "worker"]', ["CR601 entrypoint.sh:2"]),
        ('"$@"', '["gunicorn", "shop"]', []),
        ("echo $@", '["rq", "worker"]', []),
        ("trap 'kill -TERM $child' TERM\ncelery -A shop beat &\nchild=$!\nwait", "[]", []),
        ("python manage.py migrate\nexec gunicorn shop", "[]", []),
        ("command -v cron", "[]", []),
    ],
)
def test_a_script_as_process_1_gives_way_or_is_told(
    script: str, command: str, expected: list[str], tmp_path: Path
) -> None:
    tree = dockerfile(*ENTRY, f"CMD {command}") | {"entrypoint.sh": f"#!/bin/bash\n{script}\n"}
    assert found(tmp_path, tree) == expected


def test_a_script_is_found_where_it_was_copied_from(tmp_path: Path) -> None:
    tree = dockerfile("COPY ./docker/beat/start /start-beat", 'CMD ["/start-beat"]')
    tree |= {"docker/beat/start": "#!/bin/sh\ncelery -A shop beat\n", "docker/web/start": "#!/bin/sh\nexec gunicorn\n"}
    assert found(tmp_path, tree) == ["CR601 docker/beat/start:2"]


def test_a_script_with_namesakes_far_away_is_not_guessed(tmp_path: Path) -> None:
    script = "#!/bin/sh\ncelery -A shop beat\n"
    tree = dockerfile('CMD ["/run.sh"]') | {"a/run.sh": script, "b/run.sh": script}
    assert found(tmp_path, tree) == []
    assert found(tmp_path, tree | {"run.sh": script}) == ["CR601 run.sh:2"]


def test_a_word_is_no_script_just_because_one_has_its_name(tmp_path: Path) -> None:
    tree = dockerfile('ENTRYPOINT ["run"]') | {"tools/run": "#!/bin/sh\ncelery -A shop beat\n"}
    assert found(tmp_path, tree) == []


def test_an_entrypoint_for_the_shell_is_told_once_though_a_service_adds_words_it_does_not_take(tmp_path: Path) -> None:
    tree = dockerfile("ENTRYPOINT celery -A shop beat") | service("command: --help", image="build: .")
    assert found(tmp_path, tree) == ["CR601 Dockerfile:2"]


def test_a_script_that_stops_the_cron_it_started_is_all_right(tmp_path: Path) -> None:
    script = "#!/bin/sh\ntrap 'service cron stop; wait_for_jobs; exit' TERM\nservice cron start\nwait\n"
    assert found(tmp_path, dockerfile(*ENTRY) | {"entrypoint.sh": script}) == []


def test_a_script_that_no_container_starts_is_not_process_1(tmp_path: Path) -> None:
    assert found(tmp_path, {"run.sh": "#!/bin/sh\ncelery -A shop beat\n"}) == []

"""What Dockerfiles say: process 1, its environment and its zone."""

import pytest

from cronce_audit.containers.dockerfiles import Instruction, instructions
from cronce_audit.containers.facts import Image, joined
from cronce_audit.model import Place, ZoneSet
from tests.audit.containers.made import facts


def words(text: str, path: str = "Dockerfile") -> tuple[str, ...] | None:
    (image,) = facts(path, text, Image)
    start = joined(image.entrypoint, image.cmd)
    return start.words if start else None


def test_lines_go_on_and_comments_and_empty_lines_between_do_not_count() -> None:
    text = 'FROM a\n\n# CMD no\nRUN one \\\n  # two\n\n  three\nCMD ["x"]\n'
    found = [(one.name, " ".join(one.rest.split()), one.line) for one in instructions(text)]
    assert found == [("FROM", "a", 1), ("RUN", "one three", 4), ("CMD", '["x"]', 8)]


def test_what_stands_in_a_heredoc_is_no_instruction() -> None:
    text = "FROM a\nRUN <<EOF\nCMD celery beat\nEOF\nCOPY <<A <<B /\nCMD 1\nA\nCMD 2\nB\nUSER me\n"
    assert [one.name for one in instructions(text)] == ["FROM", "RUN", "COPY", "USER"]


def test_the_escape_character_may_be_another() -> None:
    assert list(instructions("# escape=`\nRUN a `\nb\nCMD c\\\n")) == [
        Instruction("RUN", "a  b", 2),
        Instruction("CMD", "c\\", 4),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('FROM a\nCMD ["cron", "-f"]', ("cron", "-f"), id="exec form"),
        pytest.param("FROM a\ncmd cron -f", ("/bin/sh", "-c", "cron -f"), id="shell form of one command"),
        pytest.param("FROM a\nCMD a && b", ("/bin/sh", "-c", "a && b"), id="shell form of two"),
        pytest.param('FROM a\nSHELL ["/bin/bash", "-c"]\nCMD a && b', ("/bin/bash", "-c", "a && b"), id="its shell"),
        pytest.param("FROM a\nCMD ['cron']", ("/bin/sh", "-c", "['cron']"), id="no JSON goes to the shell"),
        pytest.param('FROM a\nENTRYPOINT ["a"]\nCMD ["b"]', ("a", "b"), id="entrypoint and command"),
        pytest.param(
            'FROM a\nENTRYPOINT a\nCMD ["b"]', ("/bin/sh", "-c", "a"), id="an entrypoint for the shell takes no command"
        ),
        pytest.param('FROM a AS x\nCMD ["b"]\nFROM x', ("b",), id="from the stage before"),
        pytest.param('FROM a AS x\nCMD ["b"]\nFROM y', None, id="another stage's is not this one's"),
        pytest.param(
            'FROM a AS x\nCMD ["b"]\nFROM X\nENTRYPOINT ["c"]', ("c",), id="an entrypoint empties what it inherits"
        ),
        pytest.param('FROM a\nCMD ["b"]\nENTRYPOINT ["c"]', ("c", "b"), id="but not its own"),
        pytest.param('FROM a\nHEALTHCHECK CMD celery inspect\nCMD ["b"]', ("b",), id="a health check is no command"),
        pytest.param('FROM a\nONBUILD CMD ["b"]', None, id="for another image"),
        pytest.param('CMD ["b"]', None, id="before any stage"),
        pytest.param('FROM a\nCMD ["b"]\nCMD ["c"]', ("c",), id="the last one counts"),
    ],
)
def test_what_an_image_starts(text: str, expected: tuple[str, ...] | None) -> None:
    assert words(text) == expected


def test_an_images_environment_is_filled_in_as_far_as_it_is_told() -> None:
    text = """\
ARG ZONE=Europe/Paris
FROM python:3.12-slim
ARG ZONE
ARG LATER
ENV TZ=$ZONE A="two words" B=${LATER:-b} C=$LATER
ENV OLD style here
CMD ["cron"]
"""
    (image,) = facts("Dockerfile", text, Image)
    assert dict(image.environment) == {
        "TZ": "Europe/Paris",
        "A": "two words",
        "B": "b",
        "C": "$LATER",
        "OLD": "style here",
    }
    assert facts("Dockerfile", text, ZoneSet) == [ZoneSet("Europe/Paris", Place("Dockerfile", 5), "Dockerfile")]


@pytest.mark.parametrize(
    ("lines", "zone"),
    [
        ("RUN ln -snf /usr/share/zoneinfo/Europe/Rome /etc/localtime", "Europe/Rome"),
        ("ENV Z=Europe/Rome\nRUN apk add tzdata && cp /usr/share/zoneinfo/$Z /etc/localtime", "Europe/Rome"),
        ("RUN ln -s /usr/share/zoneinfo/Europe/Rome /etc/localtime\nENV TZ=UTC", "UTC"),
        ("RUN ln -s /usr/share/zoneinfo/$TZ /etc/localtime", None),
        ("RUN echo Europe/Rome > /etc/timezone", None),
        ("ENV TZ=Nowhere/Land", None),
        ("ENV TZ=", None),
    ],
)
def test_the_zone_of_an_image(lines: str, zone: str | None) -> None:
    assert [one.zone for one in facts("Dockerfile", f"FROM a\n{lines}\n", ZoneSet)] == ([zone] if zone else [])

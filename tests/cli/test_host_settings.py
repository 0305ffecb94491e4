"""Which time zone cron uses on this machine."""

from pathlib import Path

import pytest

from cronce.cli.host_settings import machine_zone
from cronce.errors import BadInput


def zone(root: Path, link: str | None, name: str | None, tz: str = "") -> str:
    (root / "etc").mkdir()
    if link:
        (root / "etc/localtime").symlink_to(link)
    if name:
        (root / "etc/timezone").write_text(f"{name}\n")
    return machine_zone(root, {"TZ": tz} if tz else {})


@pytest.mark.parametrize(
    ("link", "name", "tz", "expected"),
    [
        ("/usr/share/zoneinfo/Etc/UTC", None, "", "UTC"),
        ("../usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo", "", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Europe/Berlin", None, ":Europe/Berlin", "Europe/Berlin"),
        (None, "Asia/Tokyo", "", "Asia/Tokyo"),
        (None, None, "", "UTC"),
        (None, None, "Etc/UTC", "UTC"),
    ],
)
def test_cron_fires_by_the_machines_zone(
    link: str | None, name: str | None, tz: str, expected: str, tmp_path: Path
) -> None:
    assert zone(tmp_path, link, name, tz) == expected


@pytest.mark.parametrize(("link", "tz"), [("/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo"), ("/dev/null", "")])
def test_where_the_zone_is_not_sure_it_has_to_be_said(link: str, tz: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give --tz"):
        zone(tmp_path, link, None, tz)

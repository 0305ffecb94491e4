"""What a watcher may be told."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.errors import BadInput
from cronce.monitor.settings import Settings, check_settings


@pytest.mark.parametrize(
    "wrong",
    [{"schedulers": 0}, {"schedulers": True}, {"late": timedelta(0)}, {"skew": "1s"}, {"flapping": 0}],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    assert check_settings(Settings()) == Settings()
    with pytest.raises(BadInput, match=next(iter(wrong))):
        check_settings(Settings(**wrong))

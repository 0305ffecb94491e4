"""What every test shares: a test bench for plugins, the watch over docs/requirements.md, clocks turned by hand."""

import pytest
from hypothesis import settings

settings.load_profile("ci")  # what a busy machine is slow at is no finding, and one run of the suite is like another
pytest.register_assert_rewrite("cronce.testing.contract")  # its asserts are shown in full, though it is in the package

pytest_plugins = ["pytester", "tests.house.plugin", "tests.runtime.fixtures", "tests.servers.fixtures"]

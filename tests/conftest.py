"""What every test shares: a test bench for plugins, the watch over docs/requirements.md, clocks turned by hand."""

import pytest

pytest.register_assert_rewrite("cronce.testing.contract")  # its asserts are shown in full, though it is in the package

pytest_plugins = ["pytester", "tests.house.plugin", "tests.runtime.fixtures", "tests.servers.fixtures"]

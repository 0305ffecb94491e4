"""What every test shares: a test bench for plugins, the watch over docs/requirements.md, clocks turned by hand."""

pytest_plugins = ["pytester", "tests.house.plugin", "tests.runtime.fixtures", "tests.servers.fixtures"]

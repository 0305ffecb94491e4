"""What every test shares: pytest's own test bench for plugins, and the watch over docs/requirements.md."""

pytest_plugins = ["pytester", "tests.house.plugin"]

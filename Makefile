# Each command sets up what it needs in .venv, so that a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers

.PHONY: help demo test lint servers bench proof clean
.DEFAULT_GOAL := help

help: ## this text
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cronce needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -q src  # pip does so for what it copies; cron starts us every minute
	@touch $@

demo: $(STAMP) ## three processes, one killed in mid-run, with and without the guard: 20 seconds
	$(BIN)/cronce demo

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

servers: ## MariaDB and PgBouncer for the tests, where this is Debian and root; CRONCE_NO_APT=1 forbids it
	@if [ "$$(id -u)" = 0 ] && [ -z "$(CRONCE_NO_APT)" ] && command -v apt-get >/dev/null \
		&& ! { [ -x /usr/sbin/mariadbd ] && [ -x /usr/sbin/pgbouncer ]; }; then \
		echo "installing MariaDB and PgBouncer for the tests (CRONCE_NO_APT=1 forbids it)"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
			mariadb-server-core mariadb-client-core pgbouncer; } >/dev/null || echo "that failed: what needs them will be skipped, loudly"; fi

test: lint servers ## lint and all tests
	$(BIN)/python -m pytest -n 3 --dist loadgroup

proof: $(STAMP) servers ## the full-size figures: torture on every store (four hours; TORTURE_RUNS=1 is less), 500 invoices and 50 kills, 20,000 seeds, every mutant, the explorer, 100 slots on three skewed hosts
	CRONCE_SKEWED_SLOTS=100 $(BIN)/python -m pytest tests/faults/test_skewed_hosts.py
	CRONCE_TORTURE_RUNS=$(or $(TORTURE_RUNS),10) $(BIN)/python -m pytest tests/faults/torture_proof.py tests/faults/test_outage.py tests/faults/test_election.py
	CRONCE_BILLING=1 $(BIN)/python -m pytest tests/faults/test_billing.py
	$(BIN)/cronce simulate --seeds 20000
	$(BIN)/python -m cronce.testing.explorer --check-docs

$(PEERS): $(STAMP)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

bench: $(PEERS) ## speed and memory, as ratios against a limit or a peer in the same run
	$(BIN)/python -m bench
	$(BIN)/python -m bench.scheduler

clean: ## remove what the commands above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

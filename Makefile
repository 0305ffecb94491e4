# Each command sets up what it needs in .venv, so that a fresh clone needs only Python 3.11+ and make. `make demo` needs
# cronce alone, which depends on nothing; the tests need servers, browsers and the libraries of others beside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers
SITE := $(VENV)/.site

.PHONY: help demo test test-fast lint servers bench docs peers soak proof release-check clean
.DEFAULT_GOAL := help

help: ## this text
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(CORE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cronce needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@echo "setting up $(VENV), once: some seconds"
	@# a .venv that is there keeps its own Python: another one on top of it would mix the two
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install -q --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q src  # pip does so for what it copies; cron starts us every minute
	@touch $@

$(STAMP): $(CORE) constraints.txt
	@echo "setting up what the tests need, once: one to three minutes"
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true  # pytest compiles the tests here once, not four times in the first run
	@touch $@

demo: $(CORE) ## three processes, one killed in mid-run, with and without the guard: 20 seconds, and some to set up the first time
	$(BIN)/cronce demo

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

servers: ## MariaDB, PgBouncer, cron and Chromium for the tests, where this is Debian and root; CRONCE_NO_APT=1 forbids it
	@if [ "$$(id -u)" = 0 ] && [ -z "$(CRONCE_NO_APT)" ] && command -v apt-get >/dev/null \
		&& ! { [ -x /usr/sbin/mariadbd ] && [ -x /usr/sbin/pgbouncer ] && [ -x /usr/sbin/cron ] && [ -x /usr/bin/chromium ]; }; then \
		echo "installing MariaDB, PgBouncer, cron and Chromium for the tests (CRONCE_NO_APT=1 forbids it)"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
			mariadb-server-core mariadb-client-core pgbouncer cron chromium; } >/dev/null || echo "that failed: what needs them will be skipped, loudly"; fi

test: $(STAMP) servers ## lint and all tests, four test processes at once, since most tests wait: about eight minutes
	@nice $(MAKE) --no-print-directory lint >$(VENV)/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest -n 4 --dist loadgroup; tests=$$?; \
	wait $$lint; linted=$$?; cat $(VENV)/lint.log; exit $$((tests + linted))

test-fast: $(STAMP) ## the tests that need no server and no process of their own, for while you work: a minute or so
	$(BIN)/python -m pytest -n 3 --fast

$(SITE): $(STAMP)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(SITE) ## the documentation as a site with search, in build/site; nothing in it comes from elsewhere
	$(BIN)/sphinx-build -q -W -n -a --keep-going -c docs -d build/doctrees . build/site
	@echo "open build/site/index.html"

proof: $(STAMP) servers $(if $(PART),,docs) ## the long checks, in parts: over an hour; PART="a b" runs only these, FRESH=1 repeats what passed, TORTURE_RUNS=10 for more
	@$(BIN)/python -m tests.proof $(if $(FRESH),--fresh) $(PART)

$(PEERS): $(STAMP)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

bench: $(PEERS) ## speed and memory, as ratios against a limit or a peer in the same run; writes docs/explain/figures.md
	@mkdir -p $(VENV)/bench
	$(BIN)/python -m bench --save $(VENV)/bench/bench.json
	$(BIN)/python -m bench.scheduler --save $(VENV)/bench/scheduler.json
	$(BIN)/python -m bench.figures
	$(BIN)/python -m bench.audit
	$(BIN)/python -m bench.ui

peers: $(STAMP) servers ## the same faults for cronce and for other tools, each in an environment of its own: over an hour; ONLY="dbos frozen" repeats some
	@nice $(BIN)/python -m bench.peers $(if $(ONLY),--only $(ONLY))

soak: $(STAMP) servers ## schedulers that stay up under random faults on every store, purged and upgraded meanwhile; MINUTES=5 for a short one
	@nice $(BIN)/python -m bench.soak --minutes $(or $(MINUTES),60)

release-check: $(STAMP) ## build wheel and sdist, install them in clean environments of every Python that is here, and lint the Dockerfile
	$(BIN)/hadolint Dockerfile
	$(BIN)/python -m tests.release

clean: ## remove what the commands above made
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis

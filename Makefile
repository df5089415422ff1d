# All development tasks. A newcomer needs `make up` and `make test`.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
# Stamps: the packages for running are installed; the packages for tests and lint as well.
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
TEAM_STAMP := $(VENV)/.installed-team
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Installs with uv, which takes seconds: that of the machine, or one in the environment. With pip where neither works.
INSTALL = @PATH="$$PATH:$(abspath $(BIN))" uv pip install --quiet --python $(BIN)/python $(1) 2>/dev/null || $(PIP) $(1)
# The lock files name every package: nothing is left to resolve, and pip refuses `psycopg[pool]`, a dependency of a
# locked package, as not pinned once a newer version than the locked one is out.
LOCKED := --no-deps --require-hashes
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url --generate-hashes
PAGE := src/agenttrace/console/dist/index.html
# Many tests wait for processes: one worker more than there are cores keeps the cores busy. Two more are slower
# (two cores: 12 min 42 s against 11 min 48 s).
JOBS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PAGE_SOURCE := $(shell find web -type f -not -path '*/node_modules/*' 2>/dev/null)

.PHONY: help setup setup-dev setup-team console up demo test test-team test-peers lint bench snapshots screenshots web-types docs-tables
.PHONY: lock clean docs release audit
.DEFAULT_GOAL := help

help:
	@echo "make up           install everything and run AgentTrace"
	@echo "make demo         run it with demo data in the browser, until Ctrl-C (nothing is kept)"
	@echo "make test         install everything and run the tests (ARGS: arguments of pytest)"
	@echo "make test-team    run the tests that need ClickHouse, in process"
	@echo "make test-peers   run the tests against other programs, such as Phoenix"
	@echo "make lint         ruff, mypy, import-linter, type check and lint of the console"
	@echo "make console      build the page of the console"
	@echo "make web-types    write the TypeScript types of the API"
	@echo "make docs-tables  write the tables of docs/configuration.md"
	@echo "make docs         build the documentation site into build/site"
	@echo "make snapshots    store how the pages of the console look, after a change that is meant (needs Chromium)"
	@echo "make screenshots  make the images of the README (needs Chromium)"
	@echo "make bench        run the benchmarks (ARGS: see docs/benchmarks.md)"
	@echo "make lock         update the lock files (needs uv)"
	@echo "make audit        check the locked versions for known vulnerabilities"
	@echo "make release      build the source distribution and the wheel, and test the wheel"
	@echo "make clean        remove environments, caches and builds"

setup: $(STAMP)

setup-dev: $(DEV_STAMP)

setup-team: $(TEAM_STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d; try: make PYTHON=python3.12 ..." % v[:2])'
	@$(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || $(PIP) $(LOCKED) -r requirements-uv.lock 2>/dev/null || true

$(STAMP): pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,$(LOCKED) -r requirements.lock)
	$(call INSTALL,--no-deps --no-build-isolation -e .)
	@touch $(STAMP)

# requirements-dev.lock includes requirements.lock.
$(DEV_STAMP): pyproject.toml requirements-dev.lock | $(BIN)/python
	$(call INSTALL,$(LOCKED) -r requirements-dev.lock)
	$(call INSTALL,--no-deps --no-build-isolation -e .)
	@touch $(STAMP) $(DEV_STAMP)

$(TEAM_STAMP): $(DEV_STAMP) requirements-team.lock
	$(call INSTALL,$(LOCKED) -r requirements-team.lock)
	@touch $(TEAM_STAMP)

# The page of the console, built from web/. Node is installed if the machine has none.
console: $(PAGE)

$(PAGE): $(STAMP) $(PAGE_SOURCE) hatch_build.py
	$(BIN)/python hatch_build.py
	@touch $(PAGE)

# If the packages of the page cannot be installed, everything else still works.
up: setup
	@$(MAKE) --no-print-directory console || echo "The console could not be built (see above); everything else works."
	@$(BIN)/agenttrace up

demo: setup
	@$(MAKE) --no-print-directory console || echo "The console could not be built (see above); everything else works."
	@$(BIN)/agenttrace demo --console $(ARGS)

test: setup-dev console
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent test
	TEST_CLICKHOUSE_URL=$${TEST_CLICKHOUSE_URL:-none} $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

# Where they are: all others need not be collected.
TEAM_TESTS := tests/faults tests/rules tests/store tests/team

# ClickHouse in process: half a gigabyte. One process, because it has one directory in each.
test-team: setup-team
	$(BIN)/python -m pytest -q -n 0 -m team -o cache_dir=.pytest_cache/team $(TEAM_TESTS) $(ARGS)

# Installs the other programs and takes some minutes.
test-peers: setup-dev
	$(BIN)/python -m pytest -q -m peers tests/peers $(ARGS)

lint: setup-dev console
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent check
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# What tests/browser/test_every_place.py compares with; needs Chromium.
snapshots: setup-dev console
	SNAPSHOTS=write $(BIN)/python -m pytest -q -n 0 -k as_they_should tests/browser/test_every_place.py

# The images of the README, from the demo; needs Chromium.
screenshots: setup-dev console
	$(BIN)/python web/screenshots.py

# The tables of docs/configuration.md, generated from the settings.
docs-tables: setup
	$(BIN)/python -m agenttrace.config.documentation docs/configuration.md

# The TypeScript types of the API, generated from its shapes.
web-types: setup
	$(BIN)/python -m agenttrace.serve.api.typescript > web/src/api/shapes.ts

bench: setup-dev
	$(BIN)/python -m benchmarks $(ARGS)

# Updates the locked versions; needs `uv`.
lock:
	$(COMPILE) --extra run --extra team --group build pyproject.toml -o requirements.lock
	$(COMPILE) --extra run --extra team --extra parquet --group dev --constraint requirements.lock pyproject.toml -o requirements-dev.lock
	$(COMPILE) --group team --constraint requirements-dev.lock -o requirements-team.lock
	$(COMPILE) --group docs --group release -o requirements-tools.lock
	echo uv | $(COMPILE) - -o requirements-uv.lock

# Tools for documentation and releases, in a separate environment.
TOOLS := build/tools
TOOLS_BIN := $(subst $(VENV),$(TOOLS),$(BIN))
TOOLS_STAMP := $(TOOLS)/.installed

$(TOOLS_STAMP): requirements-tools.lock
	@test -d $(TOOLS_BIN) || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS_BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-tools.lock
	@touch $(TOOLS_STAMP)

docs: $(TOOLS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(TOOLS_BIN)/python -m mkdocs build --strict --quiet

# Needs the network for the lists of vulnerabilities.
audit: $(TOOLS_STAMP) console
	for lock in requirements*.lock; do $(TOOLS_BIN)/python -m pip_audit --strict --disable-pip --require-hashes -r $$lock || exit 1; done
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web audit

release: $(TOOLS_STAMP)
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(TOOLS_BIN)/python -m build --outdir dist
	$(TOOLS_BIN)/python .ci/check_wheel.py dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

# Every chore of the project. `make up` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
# What running needs is installed; what tests and lint need as well.
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Installs with uv where there is one, which takes seconds; with pip otherwise, or where uv cannot reach the packages.
INSTALL = @uv pip install --quiet --python $(BIN)/python $(1) 2>/dev/null || $(PIP) $(1)
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url --generate-hashes
PAGE := src/agenttrace/console/dist/index.html
# Many tests wait for processes: one more at a time than there are cores keeps these busy. With two more, the whole takes
# longer (two cores: 12 min 42 s against 11 min 48 s).
JOBS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PAGE_SOURCE := $(shell find web -type f -not -path '*/node_modules/*' 2>/dev/null)

.PHONY: help setup setup-dev console up demo test test-peers lint bench screenshots web-types docs-tables lock clean
.PHONY: docs release audit
.DEFAULT_GOAL := help

help:
	@echo "make up     set everything up and run AgentTrace"
	@echo "make demo   see it with made-up sessions"
	@echo "make test   set everything up and run the tests"
	@echo "make test-peers  the tests against real programs of others, such as Phoenix"
	@echo "make lint   ruff, mypy, import contracts, the page's types and rules"
	@echo "make console  build the web page of the console"
	@echo "make bench  measure, beside peers and the machine's limit"
	@echo "make docs   build the documentation site into build/site"
	@echo "make audit  look for known vulnerabilities in what is locked"
	@echo "make release  build the source distribution and the wheel, and try the wheel"

setup: $(STAMP)

setup-dev: $(DEV_STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d; try: make PYTHON=python3.12 ..." % v[:2])'
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,--require-hashes -r requirements.lock)
	$(call INSTALL,--no-deps --no-build-isolation -e .)
	@touch $(STAMP)

# Everything of requirements.lock is in this one, too.
$(DEV_STAMP): pyproject.toml requirements-dev.lock | $(BIN)/python
	$(call INSTALL,--require-hashes -r requirements-dev.lock)
	$(call INSTALL,--no-deps --no-build-isolation -e .)
	@touch $(STAMP) $(DEV_STAMP)

# The web page of the console, built from web/; Node comes along where the machine has none.
console: $(PAGE)

$(PAGE): $(STAMP) $(PAGE_SOURCE) hatch_build.py
	$(BIN)/python hatch_build.py
	@touch $(PAGE)

# Whoever cannot reach the packages of the page still gets everything else.
up: setup
	@$(MAKE) --no-print-directory console || echo "The console could not be built (see above); everything else works."
	@$(BIN)/agenttrace up

demo: setup
	@$(MAKE) --no-print-directory console || echo "The console could not be built (see above); everything else works."
	@$(BIN)/agenttrace demo $(ARGS)

test: setup-dev console
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent test
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

# Against the real programs of others; fetches them, and takes some minutes.
test-peers: setup-dev
	$(BIN)/python -m pytest -q -m peers tests/peers $(ARGS)

lint: setup-dev console
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent check
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web run --silent lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The pictures of the README, from the demo; needs Chromium.
screenshots: setup-dev console
	$(BIN)/python web/screenshots.py

# The tables of docs/configuration.md, from the settings.
docs-tables: setup
	$(BIN)/python -m agenttrace.config.documentation docs/configuration.md

# The shapes of the API as TypeScript.
web-types: setup
	$(BIN)/python -m agenttrace.serve.api.typescript > web/src/api/shapes.ts

bench: setup-dev
	$(BIN)/python -m benchmarks $(ARGS)

# Renews the locked versions; needs `uv`.
lock:
	$(COMPILE) --extra run --group build pyproject.toml -o requirements.lock
	$(COMPILE) --extra run --extra parquet --group dev --constraint requirements.lock pyproject.toml -o requirements-dev.lock
	$(COMPILE) --group docs --group release -o requirements-tools.lock

# Tools that neither running nor testing needs, in an environment of their own.
TOOLS := build/tools
TOOLS_BIN := $(subst $(VENV),$(TOOLS),$(BIN))
TOOLS_STAMP := $(TOOLS)/.installed

$(TOOLS_STAMP): requirements-tools.lock
	@test -d $(TOOLS_BIN) || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS_BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-tools.lock
	@touch $(TOOLS_STAMP)

docs: $(TOOLS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(TOOLS_BIN)/python -m mkdocs build --strict --quiet

# The lists of vulnerabilities are asked for over the network.
audit: $(TOOLS_STAMP) console
	for lock in requirements*.lock; do $(TOOLS_BIN)/python -m pip_audit --strict --disable-pip --require-hashes -r $$lock || exit 1; done
	PATH="$(abspath $(BIN)):$$PATH" npm --prefix web audit

release: $(TOOLS_STAMP)
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(TOOLS_BIN)/python -m build --outdir dist
	$(TOOLS_BIN)/python .ci/check_wheel.py dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

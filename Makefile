# What a newcomer needs: `make demo` to see it, `make up` to have it, `make test` to trust it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup up demo check test acceptance chaos conformance bench screenshots lock clean
.DEFAULT_GOAL := help

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed ## Make .venv with everything, loomsvc included

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("loomsvc needs Python 3.11 or later; set PYTHON=…") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV) (once, about a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

up: setup ## Start the service on .loomsvc (Ctrl-C stops it)
	@$(BIN)/loomsvc up

demo: setup ## See it work: agents build a small program over MCP, and you are asked what they ask
	@$(BIN)/loomsvc demo $(if $(ANSWERS),--answers "$(ANSWERS)")

check: setup ## Style, types, layers, dependencies, migrations, OpenAPI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/deptry .
	DJANGO_SETTINGS_MODULE=loomsvc.settings.test $(BIN)/loomsvc makemigrations --check --dry-run
	DJANGO_SETTINGS_MODULE=loomsvc.settings.test $(BIN)/loomsvc spectacular --validate --fail-on-warn --file /dev/null

test: setup ## The everyday suite: pure tests once, ledger tests on SQLite and PostgreSQL
	@$(BIN)/python tests/run.py everyday

acceptance: setup ## Real processes, official clients, compose file
	@$(BIN)/python tests/run.py acceptance

chaos: setup ## Races and faults, 200 rounds of each, about an hour (ROUNDS=20 for fewer, SEED=2 for other moments)
	@LOOMSVC_ROUNDS=$(or $(ROUNDS),200) LOOMSVC_SEED=$(or $(SEED),1) $(BIN)/python tests/run.py chaos

conformance: setup ## The official MCP suite at every revision, half a minute (needs npm)
	@$(BIN)/python -m tests.conformance.run

bench: setup ## Measure the speed goals beside their peers (ROWS=P7 for one of them)
	@$(BIN)/python -m tests.benchmarks.run $(ROWS)

screenshots: setup ## A picture of every page of the console, light, dark and on a phone, in build/screenshots (needs Chromium)
	@$(BIN)/python -m tests.screenshots.run

lock: setup ## Resolve requirements/*.txt anew
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --upgrade -o requirements/runtime.txt
	$(BIN)/uv pip compile pyproject.toml --group dev --extra s3 --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --upgrade -o requirements/dev.txt

clean: ## Remove what setup and the tools made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis .bench

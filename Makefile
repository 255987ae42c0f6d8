# `make test` is all a fresh machine needs: it makes .venv, installs what the tests use, and runs them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup start check test test-agents torture lint types docs bench bench-quick clean

setup: $(READY)

# Installs Holdfast and starts the hub on the embedded default, until Ctrl-C.
start: $(VENV)/bin/holdfast
	@exec $(BIN)/holdfast up

$(VENV)/bin/holdfast:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[postgres]" --group dev
	touch $(READY)

test: $(READY)
	$(BIN)/python -m tests.support.system_packages
	$(BIN)/python -m pytest -n auto --timeout 300

# What to run before each commit.
check: lint types
	$(BIN)/python -m pytest -n auto --timeout 300 tests/unit

# 2,000 faults: half in the fault campaign, the rest in kill loops and damage; HOLDFAST_TORTURE=10000 HOLDFAST_SEED=random for more.
torture: $(READY)
	HOLDFAST_TORTURE=$${HOLDFAST_TORTURE:-2000} $(BIN)/python -m pytest -n auto tests/crash/test_faults.py tests/crash/test_kill_loop.py tests/crash/test_damage.py tests/hub/test_follow_kills.py

# Real agent CLIs and the Cursor SDK, pinned, against fake models in a namespace that has nothing but loopback.
test-agents: $(READY)
	$(BIN)/python -m tests.agents -n auto

lint: $(READY)
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy

# What is made from the code.
docs: $(READY)
	$(BIN)/python -m holdfast.resume.docs > docs/verdicts.md
	$(BIN)/python -m holdfast.model.notices > docs/notices.md

bench: $(READY)
	$(BIN)/python -m bench

bench-quick: $(READY)
	$(BIN)/python -m bench --quick

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

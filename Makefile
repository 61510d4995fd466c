# What people and CI type. Every target does its own set-up; `make` alone lists them.

VENV   := .venv
BIN    := $(VENV)/bin
# Empty: scripts/setup.sh looks for one. Or say it: make setup PYTHON=python3.12
PYTHON ?=
# Where the figures and tables of `make reproduce` go.
OUT    ?= reproduction
SCALE  ?= 1.0
# More for the command behind a target: make test ARGS="-k spill -x", make lock ARGS=--upgrade
ARGS   ?=

INSTALLED := $(VENV)/.installed
COMPILED  := $(VENV)/.compiled

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check format bench reproduce lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(COMPILED) ## make .venv from the lock, compile the kernels, find or provide Java
	@:

$(INSTALLED): pyproject.toml requirements.lock scripts/setup.sh
	@PYTHON="$(PYTHON)" scripts/setup.sh $(VENV)
	@touch $@

# Apart from the installation, because editing a kernel should not call pip.
$(COMPILED): $(INSTALLED) $(wildcard src/watersmeet/kernels/*.py)
	@$(BIN)/python -m watersmeet.kernels
	@$(BIN)/python -m watersmeet.spark.java
	@touch $@

demo: setup ## two tables joined and aggregated on Spark, beside Spark's own
	@$(BIN)/watersmeet demo

# Three processes, for two cores: tests on Spark wait as long as they work. Each takes whole files of
# tests, since those of one file share what they look at, in the order of tests/conftest.py: left to
# itself, xdist begins with the files of many tests and ends with those of few long ones.
# Modules are kept compiled: for lack of that each of a hundred processes would take 0.4 s longer.
test: setup ## all tests but the slow ones
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -q $(ARGS)

test-slow: setup ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow $(ARGS)

check: setup ## lint, format, types, layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup ## put the sources into the form `make check` asks for
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

bench: setup ## the table of speeds and sizes, with other engines beside it
	@$(BIN)/python benchmarks/run.py $(ARGS)

reproduce: setup ## the papers' figures and claims, at full scale (SCALE=0.1 for a look)
	@$(BIN)/watersmeet reproduce rpj --scale $(SCALE) --out $(OUT)/rpj
	@$(BIN)/watersmeet reproduce pr-join --scale $(SCALE) --out $(OUT)/pr-join
	@$(BIN)/watersmeet reproduce diner --scale $(SCALE) --out $(OUT)/diner
	@$(BIN)/watersmeet reproduce miner --scale $(SCALE) --out $(OUT)/miner
	@$(BIN)/watersmeet reproduce ssbj --scale $(SCALE) --out $(OUT)/ssbj
	@$(BIN)/watersmeet reproduce mjoin --scale $(SCALE) --out $(OUT)/mjoin

# Not uv.lock: that form names the registry each file came from, and pip cannot read it.
lock: setup ## resolve pyproject.toml again into requirements.lock (ARGS=--upgrade for newer versions)
	@command -v uv >/dev/null || $(BIN)/python -m pip install --quiet --target $(VENV)/uv uv
	@PATH="$$PATH:$(CURDIR)/$(VENV)/uv/bin" uv pip compile -q --universal --generate-hashes \
	    --no-emit-index-url --no-header --python-version 3.11 --extra plots --extra postgres --extra spark --extra demo \
	    --group test --group check --group bench pyproject.toml -o requirements.lock $(ARGS)

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

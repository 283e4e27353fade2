# Everything runs in a virtual environment of this folder, set up once and again whenever pyproject.toml changes.
# Another interpreter: `make PYTHON=python3.12 test`.

PYTHON ?= python3
VENV := .venv
# The theme advertises its successor at every build.
export NO_MKDOCS_2_WARNING := 1
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUNS := $(VENV)/.ready-to-run
TESTS := $(VENV)/.ready-to-test
IMAGENET := $(VENV)/.ready-for-imagenet

.DEFAULT_GOAL := help
.PHONY: help demo demo-imagenet test test-slow test-properties lint format docs bench-coverage bench-throughput bench-guidance bench-adversarial bench-triage bench-intervals bench-power gpu-check chromium
.NOTPARALLEL:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUNS)  ## watch the gate block a bad model and release its fix
	$(BIN)/gate demo

demo-imagenet: $(IMAGENET)  ## two minutes of the gate on a real ImageNet network
	$(BIN)/gate demo imagenet

test: chromium lint  ## everything that must hold before a merge
	site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && $(BIN)/mkdocs build --strict --quiet --site-dir "$$site"
	$(BIN)/python -m pytest -m 'not slow'

test-slow: chromium $(TESTS)  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-properties: chromium $(TESTS)  ## the property tests, with examples that were not tried before
	HYPOTHESIS_PROFILE=default $(BIN)/python -m pytest -m 'hypothesis and not slow'

lint: $(TESTS)  ## style, types, and the order of imports between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TESTS)  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(TESTS)  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

bench-coverage: $(RUNS)  ## measure what coverage costs, against its targets
	$(BIN)/python -m benchmarks.coverage

bench-throughput: $(RUNS)  ## measure how fast a campaign runs beside the bare model, against its targets
	$(BIN)/python -m benchmarks.throughput

bench-guidance: $(RUNS)  ## measure what guidance is worth beside random search, in model work
	$(BIN)/python -m benchmarks.guidance

bench-adversarial: $(RUNS)  ## measure what the gate's attacks find beside plain PGD, at equal work
	$(BIN)/python -m benchmarks.adversarial

bench-triage: $(RUNS)  ## plant causes of failure and see whether triage names them
	$(BIN)/python -m benchmarks.triage

bench-power: $(RUNS)  ## how many faulty and how many healthy networks the gate blocks, beside common practice
	$(BIN)/python -m benchmarks.power

bench-intervals: $(RUNS)  ## simulate campaigns and count how often the intervals contain the truth
	$(BIN)/python -m benchmarks.intervals

gpu-check: $(RUNS)  ## try the gate on a CUDA device and print a table
	$(BIN)/python -m benchmarks.gpu_check

chromium:
	@.ci/system-packages chromium

$(BIN)/python:
	@PYTHON='$(PYTHON)' .ci/system-packages python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@# Half an environment would look finished to the next call.
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUNS): pyproject.toml | $(BIN)/python
	@echo 'Installing the gate into $(VENV); PyTorch is large, so this takes some minutes the first time.'
	$(PIP) install --quiet --editable .
	@touch $@

$(IMAGENET): pyproject.toml | $(BIN)/python
	@echo 'Installing the gate and a network with its weights into $(VENV); PyTorch is large, so this takes some minutes the first time.'
	$(PIP) install --quiet --editable '.[imagenet]'
	@touch $(RUNS) $@

$(TESTS): pyproject.toml | $(BIN)/python
	@echo 'Installing the gate and what its tests need into $(VENV); PyTorch is large, so this takes some minutes the first time.'
	$(PIP) install --quiet --editable '.[test,docs]'
	@touch $(RUNS) $@

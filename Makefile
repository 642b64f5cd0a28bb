# make demo, make test: each does all the set-up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread per process: with more, small matrix products wait for each other under load.
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test test-all check format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/p3iv data make tabletop demo/tabletop --overwrite
	$(BIN)/p3iv data check demo/tabletop
	$(BIN)/p3iv data stats demo/tabletop --split release
	$(BIN)/p3iv train demo/tabletop --out demo/run --preset tiny --split release --overwrite

test: $(READY)
	$(BIN)/pytest -n 2 -m "not slow"

test-all: $(READY)
	$(BIN)/pytest -n 2

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

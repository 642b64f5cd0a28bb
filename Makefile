# make demo, make serve, make test: each does all the set-up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread per process: with more, small matrix products wait for each other under load.
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo serve test test-all soak check check-deps format docs clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/p3iv demo demo

# The page and the planner that comes with p3iv, at http://127.0.0.1:8000; Ctrl-C ends it.
serve: $(READY)
	$(BIN)/p3iv serve

test: $(READY)
	$(BIN)/python -m tools.chromium
	$(BIN)/pytest -n 2 -m "not slow"

test-all: $(READY)
	$(BIN)/python -m tools.chromium
	$(BIN)/pytest -n 2 --hypothesis-profile explore

# At most 20 minutes on two cores; a new seed each time.
soak: $(READY)
	$(BIN)/python -m soak

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.try_install

# Some minutes: the lowest and the newest versions of what p3iv needs, torch excepted.
check-deps: $(READY)
	$(BIN)/python -m tools.check_deps

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Updates the generated pages and builds the site in site/, offline; a broken link or anchor is an error.
docs: $(READY)
	$(BIN)/python tools/docs.py
	$(BIN)/zensical build --strict --clean

clean:
	rm -rf $(VENV) demo site soak-failures .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

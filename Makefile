# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
#   make demo        plan and report on the sample data
#   make test        the tests, but for those marked slow
#   make test-all    the tests marked slow: training scripts, launches of several processes, Ray
#   make test-hard   faults, random input and long runs, for an hour; HARD='-k signal --tries 200' for some, more often
#   make lint        ruff and mypy
#   make docs        the docs as a site in .site/html; a broken link fails

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST_FLAGS ?= -n auto --dist worksteal

# The interpreter to build .venv with; `make PYTHON=python3.12 ...` names another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)

.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-hard lint docs format clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/installed
	$(BIN)/gcbs demo demo --force

test: $(VENV)/installed-test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not slow"

# pytest ends with 5 where it finds no test: without slow tests there is nothing to run, and nothing failed.
test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m slow || test $$? -eq 5

# One test at a time: they limit memory, kill processes and look at peaks.
test-hard: $(VENV)/installed-test
	$(BIN)/python -m pytest tests/hard $(HARD)

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages keep their places in the repository, so that a link works here and there alike.
docs: $(VENV)/installed-docs
	@rm -rf .site && mkdir -p .site/pages
	@cp --parents *.md docs/*.md docs/*.png docs/*.ipynb benchmarks/RESULTS.md sample_data/README.md examples/* .site/pages
	$(BIN)/zensical build --strict

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .site demo

# The stamps below are written last, so that an install which was cut short is done again.
$(VENV)/created:
	@test -n "$(PYTHON)" || { echo "gcbs needs Python 3.11 or newer; python3 here is $$(python3 --version 2>&1)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gcbs needs Python 3.11 or newer; $(PYTHON) here is $$("$(PYTHON)" --version 2>&1)" >&2; exit 1; }
	@echo "Making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV) || { echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

# torch comes first, by its pin alone: a range would let another release in.
# No build isolation: the build backend is pinned in constraints.txt like the rest.
$(VENV)/installed: pyproject.toml constraints.txt $(VENV)/created
	@echo "Installing gcbs and what it needs into $(VENV); the first time takes some minutes"
	@$(PIP_INSTALL) "$$(grep '^torch==' constraints.txt)"
	@$(PIP_INSTALL) hatchling editables
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@echo "Installing the tools of the tests into $(VENV)"
	@$(PIP_INSTALL) --no-build-isolation --editable '.[test,metis]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	@echo "Installing what builds the docs into $(VENV)"
	@$(PIP_INSTALL) --no-build-isolation --editable '.[docs]'
	@touch $@

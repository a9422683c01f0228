# On a fresh machine with Python >= 3.11, pip and make:  make drive  or  make test  do all the set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# a drive and the tests start dozens of processes: none should compile Python again that another has compiled
unexport PYTHONDONTWRITEBYTECODE

.PHONY: drive check test lint types built tried docs wheel bench drill image suite-debian13 clean

drive: $(VENV)/.drive
	$(BIN)/tandem drive $(ARGS)

# What a change is tried with: lint, types, the path in virtual time, contracts, golden runs, and the tests of the packages
# that changed since the last green check (tests/changed.py)
check: $(VENV)/.dev
	$(MAKE) --no-print-directory --output-sync=line --jobs 2 built lint types
	$(BIN)/python -m tests.changed

# Tests that start real processes mostly wait, so that six take turns on two cores; the few that measure something
# have the machine to themselves afterwards (tests/processes.py). Types are looked at while tests are collected.
test: $(VENV)/.drive
ifeq ($(ARGS),)
	$(MAKE) --no-print-directory --output-sync=line --jobs 2 built $(VENV)/.dev
	$(MAKE) --no-print-directory --jobs 3 lint types tried
	$(BIN)/python -m tests.changed --green
else
	$(MAKE) --no-print-directory lint types
	$(BIN)/pytest $(ARGS)
endif

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# what is tested, on all cores
built: $(VENV)/.drive
	$(BIN)/python -m sync.compile.build --all

tried: $(VENV)/.dev
	$(BIN)/pytest --processes 6

# the documentation as a site, in build/site; a warning is an error
docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

# a wheel with compiled kernels for a baseline processor of this kind, which drives at once where it is installed
wheel: $(VENV)/.drive
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m sync.compile.shipped build/compiled
	TANDEM_COMPILED=$(CURDIR)/build/compiled $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --wheel-dir build/wheel .

# what is measured against others, and a page of it for the site (build/validation.md); takes half an hour
bench: $(VENV)/.dev
	$(BIN)/python -m verify --bench --limit 30 --page build/validation.md --title Validation

# properties on all their examples, and what needs an hour: kills, stops, restarts, floods, CPU load, fuzzing
drill: $(VENV)/.dev
	$(BIN)/pytest --processes 2 --hypothesis-profile full
	$(BIN)/python -m verify --drill --page build/drill.md --title Drill

# docker/Dockerfile built and driven, deploy/tandem.service under a real systemd; as root, with buildah, mmdebstrap and
# systemd-container; some five minutes
image: $(VENV)/.drive
	$(BIN)/python -m verify image

# the tests on Debian 13 and its Python 3.13, in a root made for it (verify/tree/suite.py); ARGS as for `test`; as root, with
# mmdebstrap; half an hour
suite-debian13: $(VENV)/bin/python
	$(BIN)/python -m verify suite $(if $(ARGS),--tests $(ARGS))

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tandem needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.drive: $(VENV)/bin/python requirements.txt pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.drive requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

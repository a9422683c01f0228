# On a fresh machine with Python >= 3.11, pip and make:  make drive  or  make test  do all the set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# a drive and the tests start dozens of processes: none should compile Python anew that another has compiled before
unexport PYTHONDONTWRITEBYTECODE

.PHONY: drive check test lint types built collected docs wheel bench drill image suite-debian13 clean

drive: $(VENV)/.drive
	$(BIN)/tandem drive $(ARGS)

# What a change is tried with: lint, types, the path in virtual time, contracts, golden runs, and the tests of the packages
# that changed since the last green check (tests/changed.py)
check: $(VENV)/.dev
	$(MAKE) --no-print-directory --output-sync=line --jobs 2 built lint types
	$(BIN)/python -m tests.changed

# Tests that start real processes mostly wait, so that four take turns on two cores; the few that measure something
# have the machine to themselves afterwards (tests/conftest.py shares them out).
test: $(VENV)/.drive
ifeq ($(ARGS),)
	$(MAKE) --no-print-directory --output-sync=line --jobs 2 built $(VENV)/.dev
	$(MAKE) --no-print-directory --output-sync=line --jobs 2 collected lint types
	$(BIN)/pytest -n 4 --dist loadscope --no-loadscope-reorder -m "not alone"
	$(BIN)/pytest -m alone tests/system
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

# the few kernels of the tests themselves by one process, or each would compile them all
collected: $(VENV)/.dev
	$(BIN)/pytest --collect-only > /dev/null

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
	$(BIN)/python -m verify.speed.validation

# kills, stops, restarts, floods, CPU load, fuzzing, properties on all their examples; takes more than an hour
drill: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist loadscope --hypothesis-profile full --ignore tests/system
	$(BIN)/pytest -n 2 --dist loadscope --hypothesis-profile full -m "not alone" tests/system
	$(BIN)/pytest --hypothesis-profile full -m alone tests/system
	$(BIN)/python -m verify.speed.starts
	$(BIN)/python -m verify.speed.stops
	$(BIN)/python -m verify.speed.memory
	$(BIN)/python -m verify.path.loop_mutations
	$(BIN)/python -m verify.robustness.soak kills --minutes 20 --kills 200
	$(BIN)/python -m verify.robustness.soak stops --minutes 3
	$(BIN)/python -m verify.robustness.soak restarts --times 100
	$(BIN)/python -m verify.robustness.soak disk
	$(BIN)/python -m verify.robustness.soak clock --minutes 2
	$(BIN)/python -m verify.robustness.crashes --kills 100
	$(BIN)/python -m verify.robustness.flood
	$(BIN)/python -m verify.speed.cpu_load
	$(BIN)/python -m verify.path.ring_check
	$(BIN)/python -m verify.path.schedules --schedules 100000
	$(BIN)/python -m verify.path.schedules --schedules 1000 --model buggy
	$(BIN)/python -m verify.estimation.look_ahead warnings --drives 20 --minutes 2
	$(BIN)/python -m verify.estimation.identify
	$(BIN)/python -m verify.others.measured_car
	$(BIN)/python -m verify.ensembles.fleet
	$(BIN)/python -m verify.ensembles.sweep --runs 200
	$(BIN)/python -m verify.physics.energy
	$(BIN)/python -m verify.robustness.hostile_words
	$(BIN)/python -m verify.robustness.bombs
	$(BIN)/python -m verify.robustness.week
	$(BIN)/python -m verify.robustness.power_cuts
	$(BIN)/python -m verify.robustness.fuzz --inputs 1000000

# docker/Dockerfile built and driven, deploy/tandem.service under a real systemd; as root, with buildah, mmdebstrap and
# systemd-container; some five minutes
image: $(VENV)/.drive
	$(BIN)/python -m verify.tree.image

# the tests on Debian 13 and its Python 3.13, in a root made for it (verify/tree/suite.py); ARGS as for `test`; as root, with
# mmdebstrap; half an hour
suite-debian13: $(VENV)/bin/python
	$(BIN)/python -m verify.tree.suite -- $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tandem needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.drive: $(VENV)/bin/python requirements.txt pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.drive requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

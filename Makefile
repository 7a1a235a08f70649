# Everything runs in .venv, which is made from the hashed lock in requirements/dev.txt.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/dev.txt
OLDEST := .venv-oldest
ARGS ?=

# Keep compiled modules, whatever the shell says (images of containers set this): the tests start hundreds of processes,
# and each of them would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv demo demo-articles demo-companies demo-entities demo-intake demo-knowledge structure test quick coverage test-oldest lint types check format screenshots docs bench bench-all bench-articles bench-claim bench-companies bench-drain bench-intake bench-knowledge bench-limits bench-lock bench-outbox bench-reconcile bench-row-memory faults faults-broken faults-knowledge faults-long lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## make .venv from the lock (again only when the lock or pyproject.toml changed)

# PYTHON=… chooses the interpreter. A name on the PATH may be a shim for a version that is not installed,
# so each candidate has to run.
$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3 python3.12 python3.13 python3.14; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	    fi; \
	done; \
	echo "Rowmill needs Python 3.11 or newer, and none was found. Install one, or run: make venv PYTHON=/path/to/python" >&2; \
	exit 1

$(STAMP): $(LOCK) pyproject.toml systems/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e systems
	@touch $@

demo: venv ## run the demo (ARGS="--rows 500 --json" passes options)
	$(BIN)/rowmill demo $(ARGS)

demo-articles: venv ## sync 60 feeds of which many misbehave, and classify 3,000 articles (under two minutes; ARGS="--feeds 12 --articles 400")
	$(BIN)/python -m demos.articles $(ARGS)

demo-companies: venv ## resolve 6,000 names by a service that misbehaves, with Dagster (two minutes; ARGS="--rows 8000 --names 2400")
	$(BIN)/python -m demos.companies $(ARGS)

demo-entities: venv ## link 2,000 entities by services that misbehave (ARGS="--entities 500 --outage 10")
	$(BIN)/python -m demos.entities $(ARGS)

demo-intake: venv ## run document intake on papers that it makes (under two minutes; ARGS="--scans 8 --json")
	$(BIN)/python -m demos.intake $(ARGS)

demo-knowledge: venv ## put 300 documents through killed workers and damaged stores, and search them (two minutes; ARGS="--documents 80")
	$(BIN)/python -m demos.knowledge $(ARGS)

# Many tests wait, for leases and for processes: with two workers more than cores, the cores are busy meanwhile.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
PYTEST := -m pytest -n $(WORKERS) --dist loadgroup

test: venv ## run all tests (ARGS="-k claim" passes options)
	$(BIN)/python $(PYTEST) $(ARGS)

# What a change breaks most often: no server, no process, SQLite alone.
QUICK := tests/unit tests/conformance tests/plans/test_golden.py tests/lab/test_model.py \
    tests/docs/test_commands.py tests/docs/test_links.py tests/docs/test_reference.py tests/docs/test_snippets.py \
    systems/tests/test_imports.py systems/tests/parts/names systems/tests/intake/fields

quick: venv ## run the tests that take less than a minute together, for the loop of a developer
	$(BIN)/python -m pytest -n 2 -m "not postgres and not slow" $(QUICK) $(ARGS)

# One folder after another: on Python 3.11, coverage's tracer has hung among greenlets, in code that no signal reaches. It
# is then killed with its folder, and named at the end.
COVERED := $(filter-out %/__pycache__/ tests/support/,$(wildcard tests/*/ systems/tests/*/)) $(wildcard systems/tests/test_*.py)

coverage: venv ## run all tests and print which lines they run, by package (COVERED=systems/tests/companies for some)
	rm -rf .coverage && mkdir .coverage
	@failed=; for part in $(COVERED); do echo "==> $$part"; \
	    timeout --kill-after=30 900 $(BIN)/python -m coverage run $(PYTEST) -q $(ARGS) $$part || failed="$$failed $$part"; \
	done; \
	$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m tools.coverage_report; code=$$?; \
	if [ -n "$$failed" ]; then echo "failed, or stopped after 15 minutes:$$failed" >&2; exit 1; fi; exit $$code

# Its own SQLAlchemy comes before that of .venv, which has all the rest.
$(OLDEST)/.installed: requirements/oldest.txt $(STAMP)
	rm -rf $(OLDEST)
	$(BIN)/python -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/oldest.txt
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > "$$($(OLDEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/newer.pth"
	@touch $@

test-oldest: venv $(OLDEST)/.installed ## conformance tests on the oldest SQLAlchemy (POSTGRES=/usr/lib/postgresql/15/bin on that server)
	$(OLDEST)/bin/python -c 'import sqlalchemy; print("SQLAlchemy", sqlalchemy.__version__)'
	ROWMILL_TEST_POSTGRES="$(POSTGRES)" $(OLDEST)/bin/python $(PYTEST) -p no:cacheprovider tests/conformance tests/work/test_settling*.py $(ARGS)

lint: venv ## check format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: venv ## check types
	$(BIN)/mypy

check: ## all that CI runs
	bash .ci/run

format: venv ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: venv ## take a picture of every page, into build/screenshots (needs Chromium; ARGS="--only entities")
	$(BIN)/python -m tools.screenshots $(ARGS)

docs: venv ## write the generated parts of the documentation
	$(BIN)/python -m tools.reference

structure: venv ## count modules, class names, exports, lines, and files per question (ARGS=--json)
	@$(BIN)/python -m tools.structure $(ARGS)

bench: venv ## measure Rowmill beside its peers and beside the limit (under 15 minutes; ARGS="--only drain")
	$(BIN)/python -m bench $(ARGS)

bench-all: venv ## the same, and what takes longer
	$(BIN)/python -m bench --all $(ARGS)

bench-articles: venv ## save, classify, parse and sync articles, each beside what it is held against (10 minutes)
	$(BIN)/python -m bench.articles $(ARGS)

bench-claim: venv ## measure claims and depth on 10 thousand and on 10 million rows
	$(BIN)/python -m bench.claim $(ARGS)

bench-companies: venv ## send a million names through the ladder beside a pandas merge, and measure the queue at 10 million rows
	$(BIN)/python -m bench.companies $(ARGS)

bench-drain: venv ## measure a drain by one process beside the peers and beside the limit
	$(BIN)/python -m bench --only drain $(ARGS)

bench-intake: venv ## read 200 documents, hostile ones among them, and watch the memory (5 minutes)
	$(BIN)/python -m bench.intake_memory $(ARGS)

bench-knowledge: venv ## compare a million documents with their stores, take documents in, and search, each beside what it is held against (15 minutes; ARGS="--only search")
	$(BIN)/python -m bench.knowledge $(ARGS)

bench-limits: venv ## measure what limits let through, through crashes, and what they cost (5 minutes)
	$(BIN)/python -m bench.limits $(ARGS)

bench-outbox: venv ## kill workers of an outbox of 100,000 events, and judge their order (ARGS="--policy skip")
	$(BIN)/python -m bench.outbox $(ARGS)

bench-lock: venv ## remake the locks of the peers' environments
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	for peer in pgqueuer procrastinate huey awa node; do $(BIN)/uv pip compile bench/requirements/$$peer.in --quiet --universal \
	    --python-version 3.11 --generate-hashes --no-header --no-annotate --output-file bench/requirements/$$peer.txt; done
	cd bench/node && npm install --package-lock-only --omit-lockfile-registry-resolved=true

bench-row-memory: venv ## drain 300 rows of 10 MB under several budgets, and watch the memory (3 minutes)
	$(BIN)/python -m bench.row_memory $(ARGS)

bench-reconcile: venv ## compare two million rows with two million keys, and watch the memory
	$(BIN)/python -m bench.reconcile $(ARGS)

faults: venv ## put a fleet through every fault, and judge what it did (under 10 minutes; ARGS="--only frozen")
	$(BIN)/python -m faults $(ARGS)

faults-broken: venv ## the same with each guard of the engine taken out by turns: the lab has to notice (9 minutes)
	$(BIN)/python -m faults --broken all --only frozen,operators --seconds 10 $(ARGS)

faults-knowledge: venv ## put the three stores of knowledge bases through faults, and read whether they agree (4 minutes; ARGS="--store sqlite --broken all")
	$(BIN)/python -m faults.knowledge $(ARGS)

faults-long: venv ## the same for a night, with other seeds in every round (SEED=7 MINUTES=480)
	$(BIN)/python -m faults --seed $(or $(SEED),1) --minutes $(or $(MINUTES),480) $(ARGS)

lock: | $(BIN)/python ## remake the lock, keeping its versions (ARGS=--upgrade takes newer ones)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile pyproject.toml systems/pyproject.toml --quiet --all-extras --group dev --universal --no-strip-extras \
	    --python-version 3.11 --no-emit-package rowmill --generate-hashes --custom-compile-command "make lock" $(ARGS) \
	    --output-file $(LOCK)

clean: ## remove .venv, builds and caches
	rm -rf $(VENV) $(OLDEST) build dist systems/dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

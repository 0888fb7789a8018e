# Loop to Cluster. `make` lists what there is to do.

# Choices ------------------------------------------------------------------------------------------
VENV   ?= .venv#     where the environment is, or is made (9 GB; clones can share one)
PYTHON ?= python3#   the Python that makes it: 3.11, 3.12 or 3.13
TORCH  ?=#           cpu: PyTorch's own CPU builds, which save about 4 GB
PORT   ?= 8888#      JupyterLab's port; the next free one is taken if it is in use
ADDRESS ?= localhost#the address JupyterLab listens on; 0.0.0.0 in a container
STAGES ?=#           stages of make test, for example: make test STAGES="unit book"

# --------------------------------------------------------------------------------------------------
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

home_expanded := $(patsubst ~/%,$(HOME)/%,$(VENV))
environment := $(if $(filter /%,$(home_expanded)),,$(CURDIR)/)$(home_expanded)
python = '$(environment)/bin/python'
extras := test,book,browser,dev

# Several clones can share an environment, and its `helpers` can only belong to one of them. With this
# each clone runs its own sources, in the kernels that Jupyter starts too.
export PYTHONPATH := $(CURDIR)
export PATH := $(environment)/bin:$(PATH)
# The kernel named python3 is this environment's, not one that the user has installed elsewhere.
export JUPYTER_PREFER_ENV_PATH := 1
# JupyterLab's settings for the course; the user's own settings still win over them.
export JUPYTER_CONFIG_PATH := $(CURDIR)/tools/jupyter

prepare = @$(PYTHON) tools/environment.py --venv '$(environment)' --torch '$(strip $(TORCH))' --extras

.PHONY: help setup lab test book bench bench-setup check format constraints resolve clean

help: ## list the targets
	@printf 'Loop to Cluster\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nChoices, for example  make lab TORCH=cpu\n\n'
	@awk -F ' *[?]=|# *' '/^[A-Z]+ *[?]=/ {printf "  %-17s %s\n", $$1, $$NF}' $(MAKEFILE_LIST)

setup: ## make the environment, or mend it; seconds when it is right already
	$(prepare) $(extras)

lab: setup ## set up, check this machine, and open JupyterLab at the map of chapters
	@course check
	@tools/lab.sh '$(strip $(ADDRESS))' '$(strip $(PORT))'

test: setup ## set up and run every test, stage by stage
	@$(python) tools/stages.py $(STAGES)

book: setup ## build the book's pages from the notebooks' stored outputs
	@$(python) book/build.py

bench: bench-setup ## measure the training loop beside its peers; writes book/_data/bench.json
	@$(python) -m tests.benchmarks

bench-setup:
	$(prepare) $(extras),peers

check: setup ## check style, types and the notebooks' hygiene
	@failed=0; \
	for each in 'ruff check .' 'ruff format --check .' 'mypy --strict helpers tools' 'course notebooks check' \
	  'course labs build --check'; do \
	  echo "=== $$each"; $$each || failed=1; \
	done; \
	exit $$failed

format: setup ## mend style where a tool can
	@ruff check --fix .
	@ruff format .

constraints: bench-setup ## write constraints.txt anew from what is installed
	@$(python) tools/pins.py constraints.txt

resolve: setup ## show that 3.11, 3.12 and 3.13 find every pinned package ready-made; installs nothing
	@for version in 3.11 3.12 3.13; do \
	  uv pip compile --quiet --no-build --all-extras --python-version $$version -c constraints.txt pyproject.toml \
	    | awk -v v=$$version '/^[a-z]/ {n++} END {if (!n) exit 1; print "Python " v ": " n " packages, all as wheels"}'; \
	done

clean: ## remove what tests, notebooks and the book have made; the environment stays
	@rm -rf .scratch .course .pytest_cache .mypy_cache .ruff_cache .hypothesis build book/_build book/_generated
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# tripbench. `make` alone lists the targets.

PYTHON ?= python3
GPU ?=
MODEL ?=
SUITE ?= quick
SEEDS ?=
HARNESS ?=
OUT ?=
JOBS ?= 6
EXAMPLES ?=
SEED ?=
RUN ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup eval smoke report provocation test lint bench bench-equality mutation lock clean python-check
# Each target is one command after another, whatever -j says.
.NOTPARALLEL:

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: python-check ## Make .venv with everything in it (PYTHON=... chooses the Python, GPU=cuda compiles for CUDA)
	@$(PYTHON) tools/setup_env.py --gpu=$(GPU)

eval: setup ## Run the quick suite with the default model (MODEL=, SUITE=, SEEDS=, HARNESS=, OUT=, JOBS=) and write a report
	@$(BIN)/tripbench models pull $(if $(findstring /,$(MODEL)),,$(MODEL))
	@$(BIN)/tripbench run --suite $(SUITE) $(if $(MODEL),--model $(MODEL)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HARNESS),--harness $(HARNESS)) $(if $(OUT),--out $(OUT)) --jobs $(JOBS)

smoke: setup ## Run every scenario with scripted actors in the real harness, in some minutes, without a model
	@$(BIN)/tripbench run --suite smoke --model actor:honest --model actor:looping $(if $(OUT),--out $(OUT))

report: setup ## Write the report of a run again (RUN=results/runs/...)
	@$(BIN)/tripbench report $(RUN)

# Each piece of `provocation` is a run of its own; where episodes failed (status 1), the tables say how many.
WHERE = $(or $(OUT),results/runs/provocation)
models = $(or $(MODEL),qwen2.5-coder-0.5b qwen2.5-coder-1.5b)
players = $(foreach model,$(models),--model $(model)) $(if $(SEEDS),--seeds $(SEEDS))
# Of a path or an actor: it is not pulled, and no card recommends it a sampler.
cardless = $(findstring /,$(MODEL))$(findstring :,$(MODEL))
pieces = greedy greedy-k4 $(if $(MODEL),,forced-greedy) $(if $(cardless),,card card-k4) greedy-refill
ask-greedy = --suite provocation $(players)
ask-greedy-k4 = --suite provocation --priming 4 --horizon 13 $(players)
ask-greedy-refill = --suite provocation-refill $(players)
ask-forced-greedy = --suite provocation --decode-mode forced --model smollm2-135m $(if $(SEEDS),--seeds $(SEEDS))
ask-card = --suite provocation-card $(players)
ask-card-k4 = --suite provocation-card --priming 4 --horizon 13 $(players)
play = { $(BIN)/tripbench run $(ask-$(1)) --jobs $(JOBS) --out $(WHERE)/$(1) \
	  $$(test ! -e $(WHERE)/$(1)/manifest.json || echo --resume) || test $$? -eq 1; }

provocation: setup ## Measure how often models loop without guards, for hours; again goes on (MODEL=, SEEDS=, OUT=, JOBS=)
	@$(if $(cardless),,$(BIN)/tripbench models pull $(models) $(if $(MODEL),,smollm2-135m))
	@$(foreach piece,$(pieces),$(call play,$(piece)) && \
	  )$(BIN)/tripbench provocation $(addprefix $(WHERE)/,$(pieces)) \
	  --out $(if $(OUT),$(OUT)/tables,results/published/provocation)

test: setup ## Run all tests (fetches the small model first)
	@$(BIN)/tripbench models pull smollm2-135m
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: setup ## Check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy tools/setup_env.py tools/lock.py

bench: setup ## Measure the guards' decisions, and decode throughput beside llama.cpp's own server
	@$(BIN)/python bench/decisions.py
	@$(BIN)/python bench/run.py

bench-equality: setup ## Compare the Python guards with the plugins' on 100,000 generated traces (EXAMPLES=, SEED=)
	@$(BIN)/python -m tests.guards.plugins.equality $(if $(EXAMPLES),--examples $(EXAMPLES)) $(if $(SEED),--seed $(SEED))

mutation: setup ## Change each place of the guards' decision cores in turn: whether a test would notice
	@$(BIN)/python -m tests.guards.mutation

lock: python-check ## Write constraints.txt anew from pyproject.toml (UPGRADE=1 takes newer versions)
	@$(PYTHON) tools/lock.py $(if $(UPGRADE),--upgrade)

clean: ## Remove .venv and what tools left behind (models and compiled wheels stay in the user's cache)
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

python-check:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'error: $(PYTHON) is not Python 3.11 or newer: name one with make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }

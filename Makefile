# The commands of daily work. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup dev test fmt lint bench microbench long jepsen sim mutants schemathesis

# The cluster that `make dev` runs; its folder is kept between runs.
DEV_ARGS ?=
# What `make jepsen` runs, with further options of `orloj-jepsen run`; jepsen/README.md lists the scenarios.
SCENARIO ?= smoke
JEPSEN_ARGS ?=
# What `make bench` measures, with further options of `orloj bench`, such as: burst steady --runs 3
BENCH_ARGS ?=
# Further options of `schemathesis run`, such as: --seed 1 --max-examples 500
SCHEMATHESIS_ARGS ?=
# What `make microbench` measures; docs/performance.md lists the benchmarks. All of them by default.
MICROBENCH_ARGS ?= -p orloj-model -p orloj-wire -p orloj-raft-store -p orloj-scheduler --benches
# How many clusters `make sim` simulates.
SEEDS ?= 200

help: ## List these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

setup: ## Check the build tools and install what is missing (Debian, Ubuntu)
	@scripts/setup.sh

dev: setup ## Build Orloj and run the demo cluster; Ctrl-C stops it
	@. scripts/env.sh; cargo build --workspace --bins; exec "$$CARGO_TARGET_DIR/debug/orloj" dev $(DEV_ARGS)

test: ## Run every check that CI runs
	@scripts/test.sh

fmt: ## Format the code
	@. scripts/env.sh; cargo fmt --all

lint: setup ## Run clippy, the dependency rules and the rules on the source text
	@scripts/lint.sh; . scripts/env.sh; cargo test --workspace --test tidy --quiet

bench: setup ## Measure a cluster on this machine; BENCH_ARGS chooses what (docs/performance.md)
	@. scripts/env.sh; export ORLOJ_COMMIT="$$(git describe --always --dirty 2>/dev/null || true)"; \
	cargo build --release -p orloj-cli; exec "$$CARGO_TARGET_DIR/release/orloj" bench $(BENCH_ARGS)

microbench: setup ## Measure the pure parts by themselves; MICROBENCH_ARGS chooses which (docs/performance.md)
	@. scripts/env.sh; cargo bench $(MICROBENCH_ARGS)

long: setup ## Run the whole-cluster tests and the comparison of cron with its oracle in their long form
	@. scripts/env.sh; cargo build --workspace --all-targets; export ORLOJ_LONG=1; \
	cargo test -p orloj-model --test trigger_oracle -- --nocapture; \
	cargo test --workspace --test cluster -- --test-threads=1 --nocapture

jepsen: ## Hurt a real cluster in every way that this machine allows, and judge it (about 5 minutes, as root)
	@scripts/setup.sh faults; . scripts/env.sh; cargo build --workspace --bins; \
	"$$CARGO_TARGET_DIR/debug/orloj-jepsen" doctor; \
	exec "$$CARGO_TARGET_DIR/debug/orloj-jepsen" run --scenario $(SCENARIO) $(JEPSEN_ARGS)

sim: setup ## Simulate whole clusters, SEEDS of them, each decided by its seed
	@. scripts/env.sh; cargo build --workspace --bins; \
	exec "$$CARGO_TARGET_DIR/debug/orloj-sim" sweep --seeds $(SEEDS)

mutants: setup ## Break the product on purpose in each known way and see that the checkers catch it
	@scripts/mutants.sh

schemathesis: setup ## Test the REST API of a demo cluster against its own document (docs/openapi.md)
	@scripts/schemathesis.sh $(SCHEMATHESIS_ARGS)

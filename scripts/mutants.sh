#!/usr/bin/env bash
# Breaks the product on purpose, in each way that jepsen/mutants.toml lists, and sees that a checker that is named
# there notices it. Prints a table, and fails when one gets away. Options go to `orloj-sim mutants`: `--only NAME`,
# `--json`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

# The broken program has a name of its own: the sound one stays where everybody expects it.
cargo build --package orloj-sim --features mutants
broken="$(mktemp -d)/orloj-sim-mutants"
trap 'rm -rf "$(dirname "$broken")"' EXIT
cp "$CARGO_TARGET_DIR/debug/orloj-sim" "$broken"
cargo build --package orloj-sim

"$broken" mutants "$@"

#!/usr/bin/env bash
# Every check that must pass before a change lands; CI runs this and nothing else. Cheap checks first, and
# the test runner last, so that its closing line is the last thing printed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
. scripts/env.sh

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

step cargo fmt --all --check
step scripts/lint.sh

# One call builds the binary `orloj`, which the whole-cluster tests start, and every test.
step cargo build --workspace --all-targets
if cargo nextest --version >/dev/null 2>&1; then
    step cargo test --workspace --doc --quiet
    step cargo nextest run --workspace "$@"
else
    step cargo test --workspace "$@"
fi

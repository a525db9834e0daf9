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

# A replica on a nearly full disk refuses work, as it should; its tests would then fail without saying why.
for place in "${TMPDIR:-/tmp}" "$CARGO_TARGET_DIR"; do
    mkdir -p "$place"
    free=$(($(stat -f -c '%a * %S' "$place") / 1048576))
    if [ "$free" -lt 6144 ]; then
        echo "test: $place has $free MiB free; the build and the whole-cluster tests want 6144" >&2
        exit 1
    fi
done

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

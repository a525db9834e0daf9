#!/usr/bin/env bash
# Clippy with every warning denied, and the dependency rules of deny.toml where cargo-deny is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

cargo clippy --workspace --all-targets -- -D warnings
if cargo deny --version >/dev/null 2>&1; then
    # The advisory database needs the network and is left to the call `cargo deny check advisories`.
    cargo deny check bans licenses sources
else
    echo "lint: cargo-deny is not installed: licences and banned crates were not checked"
fi

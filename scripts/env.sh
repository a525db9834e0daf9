# Sourced by the other scripts and by the Makefile: what every cargo call of this project shares.
#
# RocksDB is some 340 C++ files. It is compiled once per machine because the target folder survives a
# fresh clone, and once per ccache because the compiler is called through ccache. Both depend on every
# build using the same settings, so they are set here and nowhere else.

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/orloj/target}"

# clang compiles RocksDB in about half the time that gcc takes. A choice made by the user stands.
if [ -z "${CC:-}" ] && [ -z "${CXX:-}" ] \
    && command -v ccache >/dev/null 2>&1 && command -v clang++ >/dev/null 2>&1; then
    export CC="ccache clang" CXX="ccache clang++"
fi

# A shell that has not read the profile of rustup does not find cargo.
if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    export PATH="$HOME/.cargo/bin:$PATH"
fi

# Rebuilding the small crates from nothing takes about a minute; their incremental state grows by gigabytes a day.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

# Cargo tells by the time of a file alone whether a crate is stale, so that a second checkout on the same target
# folder would run what the first one built, with the first one's paths in it. Whoever comes newly is rebuilt.
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
if [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$checkout" ]; then
    mkdir -p "$CARGO_TARGET_DIR"
    find "$checkout/crates" "$checkout/jepsen" "$checkout/tests" -type f -exec touch -c {} +
    printf '%s\n' "$checkout" >"$CARGO_TARGET_DIR/checkout"
fi

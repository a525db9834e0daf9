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

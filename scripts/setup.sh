#!/usr/bin/env bash
# Checks that this machine can build and test Orloj, and installs what is missing on Debian and Ubuntu
# when it may. Says plainly what to install otherwise. Does nothing, quickly, when all is there.
# With the argument `faults` it also looks for the tools by which the fault harness hurts a cluster.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

RUST_MINIMUM=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

# Prints the Debian packages that are missing, one a line.
missing_packages() {
    command -v clang++ >/dev/null 2>&1 || echo clang
    command -v g++ >/dev/null 2>&1 || echo g++ # brings the C++ standard library and a plain cc, which a test uses
    command -v ccache >/dev/null 2>&1 || echo ccache
    command -v make >/dev/null 2>&1 || echo make
    command -v pkg-config >/dev/null 2>&1 || echo pkg-config
    command -v curl >/dev/null 2>&1 || echo curl
    command -v openssl >/dev/null 2>&1 || echo openssl # an example of the documents calls it
    command -v python3 >/dev/null 2>&1 || echo python3 # tests the client in Python
    have_libclang || echo libclang-dev # reads RocksDB's C header
}

# Prints the Debian packages whose tools the fault harness calls and that are missing, one a line.
missing_fault_packages() {
    command -v ip >/dev/null 2>&1 || echo iproute2
    command -v mkfs.ext4 >/dev/null 2>&1 || [ -x /usr/sbin/mkfs.ext4 ] || echo e2fsprogs
    command -v nft >/dev/null 2>&1 || [ -x /usr/sbin/nft ] || echo nftables
    command -v strace >/dev/null 2>&1 || echo strace
    command -v unshare >/dev/null 2>&1 || echo util-linux
}

have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    command -v llvm-config >/dev/null 2>&1 && compgen -G "$(llvm-config --libdir)/libclang*.so*" >/dev/null && return 0
    local pattern
    for pattern in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib64/libclang*.so* \
        /usr/lib/libclang*.so*; do
        compgen -G "$pattern" >/dev/null && return 0
    done
    return 1
}

# Prints how to become root here, or fails.
root_prefix() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "sudo -n env"
    else
        return 1
    fi
}

install_packages() {
    local packages="$*" root
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: missing here: $packages (names of Debian packages)." >&2
        echo "setup: this is no Debian or Ubuntu: please install their like with your system's own tool." >&2
        exit 1
    fi
    if ! root=$(root_prefix); then
        echo "setup: missing here, and this user may not install packages: $packages" >&2
        echo "setup: as root, run: apt-get update && apt-get install $packages" >&2
        exit 1
    fi
    echo "setup: installing $packages"
    $root DEBIAN_FRONTEND=noninteractive apt-get update -qq
    # shellcheck disable=SC2086 # one word per package
    $root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
}

check_rust() {
    if ! command -v cargo >/dev/null 2>&1; then
        echo "setup: Rust is missing: install it with rustup, version $RUST_MINIMUM or later." >&2
        exit 1
    fi
    local have
    have=$(rustc --version | sed 's/^rustc \([0-9]*\.[0-9]*\).*/\1/')
    if [ "$(printf '%s\n%s\n' "$RUST_MINIMUM" "$have" | sort -V | head -n 1)" != "$RUST_MINIMUM" ]; then
        echo "setup: Rust is $have here; version $RUST_MINIMUM or later is needed (rustup update stable)." >&2
        exit 1
    fi
    local part
    for part in rustfmt clippy-driver; do
        if ! command -v "$part" >/dev/null 2>&1; then
            echo "setup: $part is missing: run rustup component add rustfmt clippy" >&2
            exit 1
        fi
    done
}

check_rust
packages=$(missing_packages | tr '\n' ' ')
[ "${1:-}" != faults ] || packages+=$(missing_fault_packages | tr '\n' ' ')
if [ -n "${packages// /}" ]; then
    # shellcheck disable=SC2086 # one word per package
    install_packages $packages
fi

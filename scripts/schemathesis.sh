#!/usr/bin/env bash
# Tests the REST API of a running cluster against its own document with Schemathesis: no server error, no undocumented
# status, no answer that breaks its schema, no call without credentials, no bad input that is taken. Starts a demo
# cluster of its own; Schemathesis comes from PyPI into a folder beside the build. Options go to `schemathesis run`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

orloj="${ORLOJ_BIN:-$CARGO_TARGET_DIR/debug/orloj}"
if [ -z "${ORLOJ_BIN:-}" ]; then
    cargo build --package orloj-cli
fi
venv="${ORLOJ_SCHEMATHESIS_VENV:-$CARGO_TARGET_DIR/schemathesis}"
if ! "$venv/bin/python" -c 'import schemathesis' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement tests/schemathesis/requirements.txt
fi

dir=$(mktemp -d)
"$orloj" dev --dir "$dir" --base-port 0 --ready-file "$dir/ready.json" >"$dir/dev.log" 2>&1 &
cluster=$!
stop() {
    kill -TERM "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT
for _ in $(seq 300); do
    [ -s "$dir/ready.json" ] && break
    kill -0 "$cluster" 2>/dev/null || { cat "$dir/dev.log" >&2; exit 1; }
    sleep 0.2
done

ready() {
    "$venv/bin/python" -c "import json,sys; print(json.load(open(sys.argv[1]))$1)" "$dir/ready.json"
}
url=$(ready "['replicas'][0]['api']")
ORLOJ_ACCESS_KEY=$(ready "['accessKey']")
ORLOJ_SECRET_KEY=$(ready "['secretKey']")
ORLOJ_ADMIN_KEY=$(ready "['adminKey']")
ORLOJ_ADMIN_SECRET=$(ready "['adminSecret']")
export ORLOJ_ACCESS_KEY ORLOJ_SECRET_KEY ORLOJ_ADMIN_KEY ORLOJ_ADMIN_SECRET

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="tests/schemathesis:clients/python" SCHEMATHESIS_HOOKS=hooks \
    HYPOTHESIS_STORAGE_DIRECTORY="$dir/hypothesis" \
    "$venv/bin/schemathesis" --config-file tests/schemathesis/schemathesis.toml run "$url/openapi.json" \
    --url "$url" "$@"

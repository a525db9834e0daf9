#!/usr/bin/env python3
"""Computes the published vectors of signatures again, with two tools that are not ours: Python's hmac and openssl.

Prints each vector with what both have computed, and ends with 1 where one of them, or the file, says otherwise.
The files are crates/wire/testdata/signing.json (requests) and crates/wire/testdata/webhook.json (callbacks).
"""

import base64
import hashlib
import hmac
import json
import pathlib
import subprocess
import sys

TESTDATA = pathlib.Path(__file__).resolve().parents[1] / "crates/wire/testdata"
LABELS = {"caller": "", "admin": "ADMIN-", "executor": "EXEC-", "peer": "RPC-"}
LINES = ("audience", "accessKey", "timestamp", "nonce", "method", "path", "query", "idempotencyKey")


def by_hmac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def by_openssl(key: bytes, text: bytes) -> bytes:
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}", "-binary"]
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout


def canonical(one: dict) -> str:
    """The ten lines that are signed."""
    first = f"ORLOJ1-{LABELS[one['label']]}HMAC-SHA256"
    return "\n".join([first, *(one[name] for name in LINES), hashlib.sha256(one["body"].encode()).hexdigest()])


def of_request(one: dict, tool) -> str:
    return tool(one["secretKey"].encode(), canonical(one).encode()).hex()


def of_callback(one: dict, tool) -> str:
    content = f"{one['id']}.{one['timestamp']}.{one['body']}".encode()
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in one["secrets"]]
    return " ".join("v1," + base64.b64encode(tool(key, content)).decode() for key in keys)


def check(name: str, expected: str, compute) -> bool:
    """Prints what both tools have computed; whether it is what the file says."""
    computed = [compute(tool) for tool in (by_hmac, by_openssl)]
    good = computed == [expected, expected]
    print(f"{name}: {expected}" if good else f"{name}: the file says {expected}, hmac and openssl {computed}")
    return good


def main() -> int:
    # RFC 4231, test case 2: that the tools are right themselves.
    anchor = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    good = [check("RFC 4231", anchor, lambda tool: tool(b"Jefe", b"what do ya want for nothing?").hex())]
    for one in json.loads((TESTDATA / "signing.json").read_text(encoding="utf-8")):
        good.append(canonical(one) == one["canonical"])
        good.append(check(one["name"], one["signature"], lambda tool, one=one: of_request(one, tool)))
    for one in json.loads((TESTDATA / "webhook.json").read_text(encoding="utf-8"))["vectors"]:
        good.append(check(one["name"], one["signature"], lambda tool, one=one: of_callback(one, tool)))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The signature of a request. The string that is signed has exactly ten lines, without a final end of line."""

from __future__ import annotations

import hashlib
import hmac

CALLER = "ORLOJ1-HMAC-SHA256"
ADMIN = "ORLOJ1-ADMIN-HMAC-SHA256"


def canonical(
    *,
    access_key: str,
    timestamp: str,
    nonce: str,
    method: str,
    path: str,
    query: str = "",
    idempotency_key: str = "",
    body: bytes = b"",
    audience: str = "default",
) -> str:
    """The string that is signed. Path, query and key are as they are sent: never decoded, never sorted."""
    label = ADMIN if access_key.startswith("adk_") else CALLER
    digest = hashlib.sha256(body).hexdigest()
    lines = [label, audience, access_key, timestamp, nonce, method, path, query, idempotency_key, digest]
    for line in lines:
        if "\n" in line or "\r" in line:
            raise ValueError(f"an end of line in {line!r}")
    return "\n".join(lines)


def sign(secret_key: str, text: str) -> str:
    """64 lower-case hex digits. The key is the UTF-8 bytes of the whole displayed secret, prefix included."""
    return hmac.new(secret_key.encode(), text.encode(), hashlib.sha256).hexdigest()

"""Callbacks, signed by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidCallback

#: How far the time of a callback may be from this machine's, in seconds.
TOLERANCE_S = 300


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("a secret must be whsec_ and base64") from None


def verify_callback(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Iterable[str],
    *,
    now: float | None = None,
    tolerance: float = TOLERANCE_S,
) -> dict[str, Any]:
    """Checks a callback and reads it: ``type``, ``timestamp`` and the task in ``data``.

    ``body`` is the bytes as they came; reading and writing them again would change them. Give both secrets while
    one takes the place of the other.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        identity, stamp, signatures = (lower[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise InvalidCallback(f"the header {missing.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdigit()):
        raise InvalidCallback("webhook-timestamp is no number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise InvalidCallback("the callback is too old, or the clocks are apart")
    signed = f"{identity}.{stamp}.".encode() + body
    for secret in secrets:
        expected = base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest())
        for signature in signatures.split(" "):
            version, _, value = signature.partition(",")
            if version == "v1" and hmac.compare_digest(expected, value.encode()):
                return json.loads(body)
    raise InvalidCallback("no signature fits")

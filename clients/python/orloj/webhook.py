"""Callbacks, signed by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidCallback

#: How far the time of a callback may be from this machine's, in seconds.
TOLERANCE_S = 300
#: Bytes of a secret, from and to: what Standard Webhooks asks for.
SECRET_BYTES = (24, 64)
#: Digits of a time that are read, and signatures of one callback that are compared.
MOST_DIGITS, MOST_SIGNATURES = 12, 8
#: Secrets that documents show: everybody can sign with them.
PUBLISHED = frozenset(
    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
)


def _key(secret: str) -> bytes:
    """The bytes that sign. An empty or short key is refused: anybody could compute its signatures."""
    fault = ValueError(f"a secret must be whsec_ and base64 of {SECRET_BYTES[0]}-{SECRET_BYTES[1]} bytes")
    if not (isinstance(secret, str) and secret.startswith("whsec_")):
        raise fault
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        # Also what is not ASCII; the secret itself is not told.
        raise fault from None
    if not SECRET_BYTES[0] <= len(key) <= SECRET_BYTES[1]:
        raise fault
    if secret in PUBLISHED:
        raise ValueError("the secret is a published example")
    return key


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
    one takes the place of the other. Raises ``InvalidCallback`` for whatever the sender got wrong, and ``ValueError``
    for secrets that cannot be used: none at all, one that is empty, too short, malformed, or published.
    """
    if isinstance(secrets, str):
        raise ValueError("secrets must be a list of secrets, not one string")
    # All of them first: a bad one is the receiver's fault, whatever came in.
    keys = [_key(secret) for secret in secrets]
    if not keys:
        raise ValueError("secrets: at least one is needed")
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        identity, stamp, signatures = (lower[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise InvalidCallback(f"the header {missing.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= MOST_DIGITS):
        raise InvalidCallback("webhook-timestamp is no number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise InvalidCallback("the callback is too old, or the clocks are apart")
    # What is no text at all cannot have been signed; it must not end in another error than a wrong signature.
    signed = f"{identity}.{stamp}.".encode(errors="replace") + body
    candidates = [signature.partition(",") for signature in signatures.split(" ")[:MOST_SIGNATURES]]
    for key in keys:
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for version, _, value in candidates:
            if version == "v1" and hmac.compare_digest(expected, value.encode(errors="replace")):
                return _event(body)
    raise InvalidCallback("no signature fits")


def _event(body: bytes) -> dict[str, Any]:
    try:
        event = json.loads(body)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise InvalidCallback("the body is no JSON object")
    return event

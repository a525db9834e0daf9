"""Signs what Schemathesis sends, exactly as it goes out, with the product's own Python client.

The document says of each call who may make it (`x-orloj-access`), and with that which key signs it. Calls that the
document shows without `security` are sent as they are.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
import uuid
from pathlib import Path

import requests
import schemathesis
from orloj import signing

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
CALLER = (os.environ["ORLOJ_ACCESS_KEY"], os.environ["ORLOJ_SECRET_KEY"])
ADMIN = (os.environ["ORLOJ_ADMIN_KEY"], os.environ["ORLOJ_ADMIN_SECRET"])
ADMIN_PAUSE_S = 1 / 18


def _routes() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    """Of every path the class of each of its methods; exact paths before those with parameters."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    routes = []
    for path in sorted(paths, key=lambda path: path.count("{")):
        pattern = re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{[^}]+\})", path)))
        routes.append((pattern, {method: call.get("x-orloj-access", "") for method, call in paths[path].items()}))
    return routes


ROUTES = _routes()


def key_for(method: str, path: str) -> tuple[str, str] | None:
    """The key that a call is signed with; none for what anybody may ask."""
    for pattern, methods in ROUTES:
        if pattern.fullmatch(path):
            # Another method of the path is signed like those that it has, so that nothing but the method is wrong.
            access = methods.get(method.lower(), next(iter(methods.values())))
            return {"": None, "administrator": ADMIN}.get(access, CALLER)
    return CALLER


class Signed(requests.auth.AuthBase):
    """Adds the four headers to a request that is otherwise ready to be sent."""

    def __init__(self) -> None:
        self._next_admin_call = 0.0

    def _pace(self, key: tuple[str, str]) -> None:
        """An administrator's key makes 20 calls a second; those beyond that would show nothing but 429."""
        if key == ADMIN:
            time.sleep(max(0.0, self._next_admin_call - time.monotonic()))
            self._next_admin_call = time.monotonic() + ADMIN_PAUSE_S

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        target = urllib.parse.urlsplit(request.url or "")
        key = key_for(request.method or "", target.path)
        if key is None:
            return request
        self._pace(key)
        body = request.body or b""
        timestamp, nonce = str(int(time.time())), uuid.uuid4().hex
        idempotency_key = request.headers.get("Idempotency-Key", "")
        text = signing.canonical(
            access_key=key[0],
            timestamp=timestamp,
            nonce=nonce,
            method=request.method or "",
            path=target.path,
            query=target.query,
            idempotency_key=idempotency_key.decode("latin-1") if isinstance(idempotency_key, bytes) else idempotency_key,
            body=body.encode() if isinstance(body, str) else body,
        )
        request.headers["X-Access-Key"] = key[0]
        request.headers["X-Timestamp"] = timestamp
        request.headers["X-Nonce"] = nonce
        request.headers["X-Signature"] = signing.sign(key[1], text)
        return request


schemathesis.auth.set_from_requests(Signed())

INSTANT = re.compile(r"(\d{4})(-\d\d-\d\d[Tt].*)")


def _as_written(value: object) -> object:
    """What a schema lets through and the API does not mean: `1.0` for a whole number, instants before 1970, and integers
    beyond 64 bits in free values, which are refused with 400."""
    match value:
        case bool():
            return value
        case float() if value.is_integer():
            return _as_written(int(value))
        case int():
            return min(max(value, -(2**63)), 2**64 - 1)
        case str() if (found := INSTANT.fullmatch(value)) and int(found[1]) < 1970:
            # Leap years have every day.
            return f"{2000 + int(found[1]) % 20 * 4}{found[2]}"
        case list():
            return [_as_written(item) for item in value]
        case dict():
            return {name: _as_written(item) for name, item in value.items()}
    return value


@schemathesis.hook
def map_body(_: schemathesis.HookContext, body: object) -> object:
    return _as_written(body)

"""Signing, sending and repeating calls."""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from . import signing
from .errors import Refused, TimedOut, Unreachable

#: The longest that a long poll waits for a task, in ms.
WAIT_MS = 20_000
#: The longest that a synchronous submission waits for its task, in seconds.
SYNC_S = 3.0
#: The first delay between two tries, and the longest, in seconds.
BACKOFF_S = (0.05, 2.0)
#: The largest answer, in bytes.
ANSWER_LIMIT = 64 << 20
FINAL = frozenset({"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"})
#: What passes, so that another try can help.
PASSING = frozenset({408, 429, 503})
#: Codes of 503 that are told before anything is changed.
UNCHANGED = frozenset({"no_leader", "overloaded", "disk_low"})

Task = dict[str, Any]


class _NotSent(OSError):
    """There was no connection: nothing has been asked."""


class Client:
    """A signed client of several replicas; any of them answers every call. May be used by several threads."""

    def __init__(
        self,
        urls: Sequence[str],
        access_key: str,
        secret_key: str,
        *,
        audience: str = "default",
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        try_timeout: float = 10.0,
        deadline: float = 30.0,
    ):
        """``ca`` is a file with the authorities to trust instead of the machine's; ``cert`` and ``key`` are files with
        a certificate to show. ``try_timeout`` bounds one try, ``deadline`` a call with all its tries, in seconds,
        beyond the time that the call asks the server to wait; of several replicas each gets a share of the
        deadline, so that all are asked."""
        if not urls:
            raise ValueError("urls: at least one is needed")
        self._urls = [_base(url) for url in urls]
        self._access_key, self._secret_key, self._audience = access_key, secret_key, audience
        self._try_timeout, self._deadline = min(try_timeout, deadline / len(self._urls)), deadline
        self._tls = _tls(ca, cert, key) if any(url.scheme == "https" for url in self._urls) else None
        self._preferred = 0
        self._ahead_s = 0
        self._local = threading.local()

    @classmethod
    def from_env(cls, **options: Any) -> "Client":
        """A client of the cluster that the environment names, as for the command ``orloj``."""
        get = os.environ.get
        for name, variable in (("audience", "ORLOJ_AUDIENCE"), ("ca", "ORLOJ_CA"), ("cert", "ORLOJ_CERT"), ("key", "ORLOJ_KEY")):
            if get(variable):
                options.setdefault(name, get(variable))
        needed = {name: get(name) for name in ("ORLOJ_URL", "ORLOJ_ACCESS_KEY", "ORLOJ_SECRET_KEY")}
        for name, value in needed.items():
            if not value:
                raise ValueError(f"the environment variable {name} is not set")
        urls = [url.strip() for url in needed["ORLOJ_URL"].split(",") if url.strip()]
        return cls(urls, needed["ORLOJ_ACCESS_KEY"], needed["ORLOJ_SECRET_KEY"], **options)

    def submit(self, handler: str, params: Any = None, *, idempotency_key: str | None = None, **fields: Any) -> Task:
        """Submits a task; answers ``taskId`` and where it stands. Without a key one is made up for this call."""
        body = {"handler": handler, "params": {} if params is None else params, **fields}
        return self.call("POST", "/openapi/v1/tasks", body=body, idempotency_key=idempotency_key or uuid.uuid4().hex)

    def submit_batch(self, tasks: Sequence[dict[str, Any]], *, idempotency_key: str | None = None) -> list[dict[str, Any]]:
        """Submits up to 1,000 tasks, each as the API takes it; a result for each, in their order."""
        key = idempotency_key or uuid.uuid4().hex
        body = {"tasks": list(tasks)}
        return self.call("POST", "/openapi/v1/tasks/batch", body=body, idempotency_key=key)["results"]

    def submit_sync(
        self,
        handler: str,
        params: Any = None,
        *,
        estimated_duration_ms: int,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Task:
        """Submits a short task and waits for its end in the same call, at most 3 s; the task, which has ended unless
        it took longer. The estimate must be below 3,000."""
        body = {
            "handler": handler,
            "params": {} if params is None else params,
            "estimatedDurationMs": estimated_duration_ms,
            **fields,
        }
        key = idempotency_key or uuid.uuid4().hex
        return self.call("POST", "/openapi/v1/tasks/sync", body=body, idempotency_key=key, wait=SYNC_S)

    def get(self, task_id: str) -> Task:
        """The task."""
        return self.call("GET", _task(task_id))

    def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """Waits until the task has ended; raises ``TimedOut`` after ``timeout`` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        task = self.get(task_id)
        while task["status"] not in FINAL:
            left_ms = WAIT_MS if end is None else int((end - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise TimedOut(task)
            wait_ms = min(left_ms, WAIT_MS)
            query = {"after_version": task["version"], "wait_ms": wait_ms}
            task = self.call("GET", _task(task_id), query=query, wait=wait_ms / 1000)
        return task

    def cancel(self, task_id: str) -> Task:
        """Cancels the task, or has its executor asked to stop it."""
        return self.call("POST", _task(task_id, "cancel"), body={}, repeat=True)

    def retry(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Submits a task that has ended without success again, as a new one that points back with ``retryOf``."""
        return self.call("POST", _task(task_id, "retry"), body={}, idempotency_key=idempotency_key or uuid.uuid4().hex)

    def tasks(self, *, status: str | None = None, handler: str | None = None, page_size: int = 100) -> Iterator[Task]:
        """Every task of the caller, newest first."""
        query: dict[str, Any] = {"page_size": page_size}
        query.update({name: value for name, value in (("status", status), ("handler", handler)) if value})
        while True:
            page = self.call("GET", "/openapi/v1/tasks", query=query)
            yield from page["tasks"]
            if "nextPageToken" not in page:
                return
            query["page_token"] = page["nextPageToken"]

    def attempts(self, task_id: str) -> list[dict[str, Any]]:
        """Every attempt that is kept."""
        return self.call("GET", _task(task_id, "attempts"))["attempts"]

    def logs(self, task_id: str, *, attempt: int | None = None, shard_index: int = 0) -> Iterator[str]:
        """The pieces of an attempt's log, until nothing more can come."""
        offset = 0
        while True:
            query = {"offset": offset, "wait_ms": 10_000, "shard_index": shard_index}
            if attempt is not None:
                query["attempt"] = attempt
            piece = self.call("GET", _task(task_id, "logs"), query=query, wait=10)
            if piece["text"]:
                yield piece["text"]
            if piece["complete"] and not piece["text"] or piece["source"] == "tail":
                return
            offset = piece["nextOffset"]

    def executors(self) -> list[dict[str, Any]]:
        """Every executor."""
        return self.call("GET", "/openapi/v1/executors")["executors"]

    def cluster(self) -> dict[str, Any]:
        """The replicas and who leads."""
        return self.call("GET", "/openapi/v1/cluster")

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        wait: float = 0.0,
        repeat: bool | None = None,
    ) -> Any:
        """Any call of the API, until it has a final answer or its deadline has passed.

        ``repeat`` says whether it is sent again where nobody knows what became of it. A ``POST`` or ``PATCH`` without
        an Idempotency-Key is not unless it is asked for: it could make a second task, key or job. It ends as
        ``Unreachable``.
        """
        if repeat is None:
            repeat = idempotency_key is not None or method in ("GET", "HEAD", "PUT", "DELETE")
        text = "&".join(f"{name}={value}" for name, value in (query or {}).items())
        if not all("!" <= char <= "~" for char in path + text):
            # It could not be sent, however often it is tried.
            raise ValueError(f"{path}?{text}: what is not a visible ASCII character must be percent-encoded")
        content = b"" if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        end = time.monotonic() + self._deadline + wait
        delay, faults = BACKOFF_S[0], {}
        while True:
            place = self._preferred % len(self._urls)
            try:
                # A kept connection may be closed at its other end meanwhile, and nobody could tell how far a call got.
                connection = self._connection(place, self._try_timeout + wait, fresh=not repeat)
                status, retry_after, answer = self._send(connection, method, path, text, content, idempotency_key)
            except (OSError, http.client.HTTPException) as error:
                faults[place], retry_after = f"{self._urls[place].geturl()}: {error!r}", None
                unknown = not isinstance(error, _NotSent)
            else:
                if 200 <= status < 300:
                    return answer
                if not (status in PASSING or self._follow_clock(answer)):
                    raise Refused(status, answer if isinstance(answer, dict) else {})
                faults[place] = f"{self._urls[place].geturl()}: {status} {answer}"
                unknown = status == 503 and not (isinstance(answer, dict) and answer.get("code") in UNCHANGED)
            self._preferred = place + 1
            if unknown and not repeat:
                raise Unreachable(f"it is not known whether the call took effect: {faults[place]}")
            # Up to half more, so that callers who failed together do not come back together.
            pause = max(delay, retry_after or 0.0) * (1 + random.random() / 2)
            if time.monotonic() + pause >= end:
                raise Unreachable("; ".join(faults.values()))
            time.sleep(pause)
            delay = min(delay * 2, BACKOFF_S[1])

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: str,
        body: bytes,
        idempotency_key: str | None,
    ) -> tuple[int, float | None, Any]:
        """One try, signed anew: status, ``Retry-After`` and the body's JSON."""
        stamp, nonce = str(int(time.time()) + self._ahead_s), uuid.uuid4().hex
        text = signing.canonical(
            access_key=self._access_key,
            timestamp=stamp,
            nonce=nonce,
            method=method,
            path=path,
            query=query,
            idempotency_key=idempotency_key or "",
            body=body,
            audience=self._audience,
        )
        headers = {
            "X-Access-Key": self._access_key,
            "X-Timestamp": stamp,
            "X-Nonce": nonce,
            "X-Signature": signing.sign(self._secret_key, text),
        }
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        if body:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{path}?{query}" if query else path, body=body or None, headers=headers)
            response = connection.getresponse()
            content = response.read(ANSWER_LIMIT)
        except BaseException:
            # What is left of this exchange must not be taken for the answer to the next one.
            connection.close()
            raise
        asked = response.headers.get("retry-after", "")
        asked_s = float(asked) if asked.isascii() and asked.isdigit() else None
        return response.status, asked_s, _json(content)

    def _connection(self, place: int, timeout: float, *, fresh: bool) -> http.client.HTTPConnection:
        """This thread's connection to a replica, kept from call to call, or made anew; it is open."""
        kept: dict[int, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        connection = kept.get(place)
        if connection is None:
            url = self._urls[place]
            if url.scheme == "https":
                connection = http.client.HTTPSConnection(url.hostname, url.port, context=self._tls)
            else:
                connection = http.client.HTTPConnection(url.hostname, url.port)
            kept[place] = connection
        connection.timeout = timeout
        if fresh:
            connection.close()
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
            return connection
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                raise _NotSent(repr(error)) from error
            raise
        return connection

    def _follow_clock(self, problem: Any) -> bool:
        """Takes over the server's clock where it has refused ours; whether that was news."""
        server = problem.get("serverTime") if isinstance(problem, dict) else None
        if not server:
            return False
        ahead = int(datetime.fromisoformat(server.replace("Z", "+00:00")).timestamp() - time.time())
        news = abs(ahead - self._ahead_s) > 150
        self._ahead_s = ahead
        return news


def _base(url: str) -> urllib.parse.SplitResult:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError(f"{url!r} is not a base URL such as http://127.0.0.1:7070")
    return parts


def _tls(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if cert:
        context.load_cert_chain(cert, key)
    return context


def _task(task_id: str, more: str = "") -> str:
    plain = task_id.replace("_", "").replace("-", "")
    if not (plain.isascii() and plain.isalnum()):
        raise ValueError(f"{task_id!r} is not the id of a task")
    return f"/openapi/v1/tasks/{task_id}" + (f"/{more}" if more else "")


def _json(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content[:512].decode(errors="replace")

"""The client against a server that plays a replica."""

import http.server
import json
import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from orloj import Client, Refused, TimedOut, Unreachable, canonical, sign  # noqa: E402

KEY, SECRET = "ak_A", "sk_0123456789abcdef0123456789abcdef0123456789a"
TASK = "tsk_AAECAwQFBgcICQoLDA0ODw"


class Replica(http.server.ThreadingHTTPServer):
    """Answers with what it was told, in turn; the last answer repeats, and for None it hangs up. Keeps the requests."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests = list(answers), []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        answers = self.server.answers
        told = answers.pop(0) if len(answers) > 1 else answers[0]
        if told is None:
            # It dies in the middle.
            self.close_connection = True
            return
        status, answer, headers = told
        content = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def problem(status, code, **more):
    return status, {"status": status, "code": code, "detail": code, **more}, {}


class Calls(unittest.TestCase):
    def client(self, *replicas, **options):
        for replica in replicas:
            self.addCleanup(replica.server_close)
            self.addCleanup(replica.shutdown)
        return Client([replica.url for replica in replicas], KEY, SECRET, **options)

    def test_every_try_is_signed_anew_and_keeps_its_key(self):
        replica = Replica(problem(503, "no_leader"), problem(429, "rate_limited"), (202, {"taskId": TASK}, {}))
        task = self.client(replica).submit("echo", {"é": 1}, delayMs=5)
        self.assertEqual(task["taskId"], TASK)
        self.assertEqual(len(replica.requests), 3)
        for method, path, headers, body in replica.requests:
            text = canonical(
                access_key=headers["X-Access-Key"],
                timestamp=headers["X-Timestamp"],
                nonce=headers["X-Nonce"],
                method=method,
                path=path,
                idempotency_key=headers["Idempotency-Key"],
                body=body,
            )
            self.assertEqual(headers["X-Signature"], sign(SECRET, text))
            self.assertEqual(json.loads(body), {"handler": "echo", "params": {"é": 1}, "delayMs": 5})
        nonces, keys = ({headers[name] for _, _, headers, _ in replica.requests} for name in ("X-Nonce", "Idempotency-Key"))
        self.assertEqual((len(nonces), len(keys)), (3, 1))

    def test_a_synchronous_submission_is_one_call(self):
        replica = Replica((200, {"taskId": TASK, "status": "SUCCESS"}, {}))
        task = self.client(replica).submit_sync("echo", [1], estimated_duration_ms=50, priority=7)
        self.assertEqual(task["status"], "SUCCESS")
        [(method, path, headers, body)] = replica.requests
        self.assertEqual((method, path), ("POST", "/openapi/v1/tasks/sync"))
        self.assertTrue(headers["Idempotency-Key"])
        sent = {"handler": "echo", "params": [1], "estimatedDurationMs": 50, "priority": 7}
        self.assertEqual(json.loads(body), sent)

    def test_a_replica_that_is_gone_is_passed_over(self):
        gone = Replica((200, {}, {}))
        url = gone.url
        gone.shutdown()
        gone.server_close()
        there = Replica((200, {"leader": 1}, {}))
        client = Client([url, self.client(there)._urls[0].geturl()], KEY, SECRET)
        self.assertEqual(client.cluster()["leader"], 1)

    def test_a_replica_that_never_answers_is_passed_over_and_each_fault_is_named(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        url = "http://127.0.0.1:%d" % silent.getsockname()[1]
        there = Replica((200, {"leader": 1}, {}))
        there_url = self.client(there)._urls[0].geturl()
        self.assertEqual(Client([url, there_url], KEY, SECRET, deadline=2.0).cluster()["leader"], 1)
        refusing = Replica(problem(503, "no_leader"))
        refusing_url = self.client(refusing)._urls[0].geturl()
        with self.assertRaises(Unreachable) as raised:
            Client([url, refusing_url], KEY, SECRET, deadline=1.0).cluster()
        for part in (f"{url}: ", "imeout", f"{refusing_url}: 503", "no_leader"):
            self.assertIn(part, str(raised.exception))

    def test_a_refusal_is_raised_with_its_code(self):
        replica = Replica(problem(422, "validation_failed", errors=[{"pointer": "/priority", "message": "11 is outside 0-9"}]))
        with self.assertRaisesRegex(Refused, "/priority: 11 is outside") as raised:
            self.client(replica).submit("echo", priority=11)
        self.assertEqual((raised.exception.status, raised.exception.code), (422, "validation_failed"))
        self.assertEqual(len(replica.requests), 1)

    def test_only_what_passes_is_tried_again(self):
        for status in (500, 502, 504):
            replica = Replica(problem(status, "internal"), (200, {"leader": 1}, {}))
            with self.subTest(status), self.assertRaises(Refused) as raised:
                self.client(replica).cluster()
            self.assertEqual((raised.exception.status, len(replica.requests)), (status, 1))
        for status, code in ((503, "not_ready"), (429, "rate_limited"), (408, "body_timeout")):
            replica = Replica(problem(status, code), (200, {"leader": 1}, {}))
            with self.subTest(status):
                self.assertEqual(self.client(replica).cluster()["leader"], 1)

    def test_a_change_without_a_key_is_not_sent_twice_when_nobody_knows_what_became_of_it(self):
        path = "/openapi/v1/callers/shop/keys"
        for answers in ([problem(503, "commit_unknown")], [problem(503, "not_ready")], [(503, {}, {})], [None]):
            replica = Replica(*answers, (201, {}, {}))
            with self.subTest(answers), self.assertRaisesRegex(Unreachable, "not known whether"):
                self.client(replica).call("POST", path, body={})
            self.assertEqual(len(replica.requests), 1)
            # Reads, keyed calls and those of which the caller says so are.
            for how in ({"method": "GET"}, {"method": "POST", "idempotency_key": "k"}, {"method": "POST", "repeat": True}):
                replica = Replica(*answers, (201, {"n": 1}, {}))
                with self.subTest(how):
                    self.assertEqual(self.client(replica).call(path=path, **how), {"n": 1})
                    self.assertEqual(len(replica.requests), 2)
        # What was told before anything was changed is as good as never asked.
        for status, code in ((503, "no_leader"), (503, "overloaded"), (503, "disk_low"), (429, "rate_limited")):
            replica = Replica(problem(status, code), (201, {"n": 1}, {}))
            with self.subTest(code):
                self.assertEqual(self.client(replica).call("POST", path, body={}), {"n": 1})

    def test_a_change_without_a_key_passes_over_a_replica_that_is_gone_and_takes_no_old_connection(self):
        gone, there = Replica((200, {}, {})), Replica((200, {"n": 1}, {}))
        client = self.client(gone, there)
        self.assertEqual(client.call("POST", "/openapi/v1/x"), {})
        gone.shutdown()
        gone.server_close()
        self.assertEqual(client.call("POST", "/openapi/v1/x"), {"n": 1})

    def test_the_deadline_ends_the_tries(self):
        replica = Replica(problem(503, "no_leader"))
        with self.assertRaisesRegex(Unreachable, "no_leader"):
            self.client(replica, deadline=0.2).cluster()

    def test_the_servers_clock_is_followed_once(self):
        server_time = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 7_200))
        late = problem(401, "timestamp_out_of_window", serverTime=server_time)
        replica = Replica(late, (200, {"leader": 1}, {}))
        self.assertEqual(self.client(replica).cluster()["leader"], 1)
        first, second = (int(headers["X-Timestamp"]) for _, _, headers, _ in replica.requests)
        self.assertGreater(second - first, 7_000)
        always = Replica(late)
        with self.assertRaises(Refused):
            self.client(always, deadline=5).cluster()

    def test_waiting_is_a_long_poll_until_the_end(self):
        def at(status, version):
            return 200, {"taskId": TASK, "status": status, "version": version}, {}

        replica = Replica(at("PENDING", 1), at("RUNNING", 2), at("SUCCESS", 3))
        self.assertEqual(self.client(replica).wait(TASK)["version"], 3)
        paths = [path for _, path, _, _ in replica.requests]
        self.assertTrue(paths[1].endswith("?after_version=1&wait_ms=20000") and "after_version=2" in paths[2], paths)
        running = Replica(at("RUNNING", 2))
        with self.assertRaises(TimedOut):
            self.client(running).wait(TASK, timeout=0.05)

    def test_pages_are_walked(self):
        replica = Replica((200, {"tasks": [{"n": 1}, {"n": 2}], "nextPageToken": "t"}, {}), (200, {"tasks": [{"n": 3}]}, {}))
        self.assertEqual([task["n"] for task in self.client(replica).tasks(status="FAILED")], [1, 2, 3])
        self.assertIn("page_token=t", replica.requests[1][1])

    def test_what_cannot_be_used_is_refused_at_once(self):
        for url in ("127.0.0.1:1", "ftp://h", "http://h/p", "http://u@h"):
            with self.assertRaises(ValueError):
                Client([url], KEY, SECRET)
        client = Client(["http://127.0.0.1:1"], KEY, SECRET)
        for task in ("", "../cluster", "a/b", "a?b", "é"):
            with self.assertRaises(ValueError):
                client.get(task)
        for handler in ("a b", "é", "a\n"):
            with self.assertRaises(ValueError):
                list(client.tasks(handler=handler))


if __name__ == "__main__":
    unittest.main()

"""The published vectors of the signature."""

import hashlib
import hmac
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from orloj import canonical, sign  # noqa: E402

VECTORS = json.loads((ROOT / "crates/wire/testdata/signing.json").read_text(encoding="utf-8"))


def by_hmac(key, text):
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def by_openssl(key, text):
    command = ["openssl", "dgst", "-sha256", "-hmac", key, "-r"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.split()[0].decode()


class Signing(unittest.TestCase):
    def test_two_tools_compute_the_vectors(self):
        # RFC 4231, test case 2: that the tools are right themselves.
        anchor = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        labels = {"caller": "", "admin": "ADMIN-", "executor": "EXEC-", "peer": "RPC-"}
        for tool in (by_hmac, by_openssl):
            self.assertEqual(tool("Jefe", "what do ya want for nothing?"), anchor)
            for one in VECTORS:
                with self.subTest(one["name"], tool=tool.__name__):
                    # The ten lines, put together without the client.
                    names = ("audience", "accessKey", "timestamp", "nonce", "method", "path", "query", "idempotencyKey")
                    lines = [f"ORLOJ1-{labels[one['label']]}HMAC-SHA256", *(one[name] for name in names)]
                    lines.append(hashlib.sha256(one["body"].encode()).hexdigest())
                    self.assertEqual("\n".join(lines), one["canonical"])
                    self.assertEqual(tool(one["secretKey"], one["canonical"]), one["signature"])

    def test_every_vector(self):
        # The class of a signature follows from its key.
        known = [one for one in VECTORS if one["label"] == ("admin" if one["accessKey"].startswith("adk_") else "caller")]
        self.assertGreaterEqual(len(known), 6)
        for one in known:
            with self.subTest(one["name"]):
                text = canonical(
                    access_key=one["accessKey"],
                    timestamp=one["timestamp"],
                    nonce=one["nonce"],
                    method=one["method"],
                    path=one["path"],
                    query=one["query"],
                    idempotency_key=one["idempotencyKey"],
                    body=one["body"].encode(),
                    audience=one["audience"],
                )
                self.assertEqual(text, one["canonical"])
                self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), one["canonicalSha256"])
                self.assertEqual(sign(one["secretKey"], text), one["signature"])

    def test_no_line_can_be_smuggled_in(self):
        with self.assertRaises(ValueError):
            canonical(access_key="ak_A", timestamp="1", nonce="n", method="GET", path="/a\nb")


if __name__ == "__main__":
    unittest.main()

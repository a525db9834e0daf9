"""The published vectors of the signature."""

import hashlib
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from orloj import canonical, sign  # noqa: E402

VECTORS = json.loads((ROOT / "crates/wire/testdata/signing.json").read_text(encoding="utf-8"))


class Signing(unittest.TestCase):
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

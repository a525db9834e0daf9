"""Callbacks: the published vector, and what must not pass."""

import base64
import hashlib
import hmac
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from orloj import InvalidCallback, verify_callback  # noqa: E402

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "crates/wire/testdata/webhook.json"
PUBLISHED = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
SECRET = "whsec_HgECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "whsec_HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = (
    b'{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00.000Z",'
    b'"data":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"SUCCESS"}}'
)
NOW = 1_800_000_000
ID = "evt_AAECAwQFBgcICQoLDA0ODw"


def signature(key: bytes, body: bytes = BODY) -> str:
    """Anybody who has the key can make it, without this package."""
    tag = hmac.new(key, f"{ID}.{NOW}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(tag).decode()


def key(secret: str) -> bytes:
    return base64.b64decode(secret[len("whsec_") :])


HEADERS = {"Webhook-Id": ID, "Webhook-Timestamp": str(NOW), "Webhook-Signature": signature(key(SECRET))}


class Callbacks(unittest.TestCase):
    def verify(self, body=BODY, secrets=(SECRET,), now=NOW, **changed):
        headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
        return verify_callback(headers, body, secrets, now=now)

    def test_the_vector(self):
        self.assertEqual(len(BODY), 130)
        self.assertEqual(signature(key(PUBLISHED)), "v1,GERYax1WDexOE5akF0FlnfIk8Sx7qWjuf1DAECAxrjw=")
        self.assertEqual(self.verify()["data"]["status"], "SUCCESS")

    def test_two_tools_compute_the_published_vectors(self):
        def by_hmac(secret, content):
            return hmac.new(secret, content, hashlib.sha256).digest()

        def by_openssl(secret, content):
            command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{secret.hex()}", "-binary"]
            return subprocess.run(command, input=content, capture_output=True, check=True).stdout

        for one in json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]:
            content = f"{one['id']}.{one['timestamp']}.{one['body']}".encode()
            for tool in (by_hmac, by_openssl):
                with self.subTest(one["name"], tool=tool.__name__):
                    tags = [tool(key(secret), content) for secret in one["secrets"]]
                    made = " ".join("v1," + base64.b64encode(tag).decode() for tag in tags)
                    self.assertEqual(made, one["signature"])

    def test_a_callback_of_two_secrets_is_believed_by_either(self):
        vectors = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
        one = next(one for one in vectors if one["name"] == "W1r")
        sent = {name: one[name.lower()] for name in ("Id", "Timestamp", "Signature")}
        headers = {f"Webhook-{name}": value for name, value in sent.items()}
        believed = verify_callback(headers, one["body"].encode(), [OTHER], now=NOW)
        self.assertEqual(believed["data"]["taskId"], ID.replace("evt_", "tsk_"))
        with self.assertRaises(InvalidCallback):
            verify_callback(headers, one["body"].encode() + b" ", [OTHER], now=NOW)

    def test_b119_a_secret_that_anybody_could_have_believes_nothing(self):
        # Each comes with a callback that is signed by what the secret would decode to, as a forger would.
        short = base64.b64encode(bytes(23)).decode()
        long = base64.b64encode(bytes(65)).decode()
        for secret, forged in (
            ("", b""),
            ("whsec_", b""),
            ("whsec_AAAA", bytes(3)),
            ("whsec_" + short, bytes(23)),
            ("whsec_" + long, bytes(65)),
            (SECRET[len("whsec_") :], key(SECRET)),
            (SECRET.replace("whsec_", "WHSEC_"), key(SECRET)),
            (SECRET + " ", key(SECRET)),
            ("whsec_é", b""),
            (PUBLISHED, key(PUBLISHED)),
            (None, b""),
        ):
            sent = {"Webhook_Signature": signature(forged)}
            for secrets in ([secret], [SECRET, secret], [secret, SECRET]):
                with self.subTest(secrets), self.assertRaises(ValueError):
                    self.verify(secrets=secrets, **sent)
        for secrets in ((), SECRET, ""):
            with self.subTest(secrets), self.assertRaises(ValueError):
                self.verify(secrets=secrets)

    def test_the_error_does_not_tell_the_secret(self):
        with self.assertRaises(ValueError) as raised:
            self.verify(secrets=[SECRET[len("whsec_") :]])
        self.assertNotIn(SECRET[10:30], str(raised.exception))

    def test_a_signed_body_that_is_no_event_is_refused(self):
        for body in (b"", b"[1]", b"\xff{}"):
            with self.subTest(body), self.assertRaises(InvalidCallback):
                self.verify(body=body, Webhook_Signature=signature(key(SECRET), body))

    def test_one_of_two_secrets_and_one_of_two_signatures_are_enough(self):
        both = f"v1,AAAA v2,x {HEADERS['Webhook-Signature']}"
        self.assertEqual(self.verify(secrets=(OTHER, SECRET), Webhook_Signature=both)["type"], "task.succeeded")

    def test_what_was_changed_is_refused(self):
        good = HEADERS["Webhook-Signature"]
        for changed in (
            {"body": BODY + b" "},
            {"secrets": (OTHER,)},
            {"Webhook_Id": "evt_BAECAwQFBgcICQoLDA0ODw"},
            {"Webhook_Timestamp": str(NOW + 1)},
            {"Webhook_Timestamp": "soon"},
            {"Webhook_Timestamp": ""},
            {"Webhook_Timestamp": "9" * 5_000},
            {"Webhook_Timestamp": f"000{NOW}"},
            {"Webhook_Timestamp": "\u0661\u0668"},
            {"Webhook_Id": "evt_\ud800"},
            {"Webhook_Signature": "v1,\ud800"},
            {"Webhook_Signature": "v1,AAAA " * 8 + good},
            {"Webhook_Signature": good.replace("v1", "v2")},
            {"Webhook_Signature": good[:-4]},
            {"Webhook_Signature": ""},
            {"now": NOW + 301},
            {"now": NOW - 301},
        ):
            with self.subTest(changed), self.assertRaises(InvalidCallback):
                self.verify(**changed)
        self.verify(now=NOW + 300)

    def test_missing_headers_are_named(self):
        with self.assertRaisesRegex(InvalidCallback, "webhook-id"):
            verify_callback({}, BODY, [SECRET])


if __name__ == "__main__":
    unittest.main()

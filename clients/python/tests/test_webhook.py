"""Callbacks: the published vector, and what must not pass."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from orloj import InvalidCallback, verify_callback  # noqa: E402

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "whsec_HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = (
    b'{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00.000Z",'
    b'"data":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"SUCCESS"}}'
)
NOW = 1_800_000_000
HEADERS = {
    "Webhook-Id": "evt_AAECAwQFBgcICQoLDA0ODw",
    "Webhook-Timestamp": str(NOW),
    "Webhook-Signature": "v1,GERYax1WDexOE5akF0FlnfIk8Sx7qWjuf1DAECAxrjw=",
}


class Callbacks(unittest.TestCase):
    def verify(self, body=BODY, secrets=(SECRET,), now=NOW, **changed):
        headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
        return verify_callback(headers, body, secrets, now=now)

    def test_the_vector(self):
        self.assertEqual(len(BODY), 130)
        self.assertEqual(self.verify()["data"]["status"], "SUCCESS")

    def test_one_of_two_secrets_and_one_of_two_signatures_are_enough(self):
        both = f"v1,AAAA v2,x {HEADERS['Webhook-Signature']}"
        self.assertEqual(self.verify(secrets=(OTHER, SECRET), Webhook_Signature=both)["type"], "task.succeeded")

    def test_what_was_changed_is_refused(self):
        good = HEADERS["Webhook-Signature"]
        for changed in (
            {"body": BODY + b" "},
            {"secrets": (OTHER,)},
            {"secrets": ()},
            {"Webhook_Id": "evt_BAECAwQFBgcICQoLDA0ODw"},
            {"Webhook_Timestamp": str(NOW + 1)},
            {"Webhook_Timestamp": "soon"},
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

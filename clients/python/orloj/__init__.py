"""Client of Orloj: signs, submits, waits, verifies callbacks."""

from .client import Client
from .errors import Error, InvalidCallback, Refused, TimedOut, Unreachable
from .signing import canonical, sign
from .webhook import verify_callback

__all__ = [
    "Client",
    "Error",
    "InvalidCallback",
    "Refused",
    "TimedOut",
    "Unreachable",
    "canonical",
    "sign",
    "verify_callback",
]

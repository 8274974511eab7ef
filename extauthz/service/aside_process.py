"""A process that reads bodies for a gate, one after the other, until the gate has gone.

On stdin comes a length and a pickled Request, or the pickled bytes of an AdmissionReview. A length and what it means,
pickled, go to stdout.
"""

from __future__ import annotations

import gc
import pickle
import struct
import sys
from contextlib import suppress
from typing import BinaryIO

from extauthz.core.intake import admission
from extauthz.core.intake.aside import read_aside
from extauthz.core.model import Request

LENGTH = struct.Struct(">I")


def serve(requests: BinaryIO, readings: BinaryIO) -> None:
    """Answer until there is nothing more to read."""
    while head := requests.read(LENGTH.size):
        body = pickle.loads(requests.read(*LENGTH.unpack(head)))  # noqa: S301 (from the gate that started us)
        found = read_aside(body) if isinstance(body, Request) else admission.read_aside(body)
        reading = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
        readings.write(LENGTH.pack(len(reading)) + reading)
        readings.flush()


def main() -> None:
    """Serve on stdin and stdout."""
    gc.freeze()
    with suppress(BrokenPipeError, struct.error, EOFError):  # the gate ended in the middle
        serve(sys.stdin.buffer, sys.stdout.buffer)

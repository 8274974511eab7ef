"""A process that reads AdmissionReviews for a gate, one after the other, until the gate has gone.

On stdin come a length and the bytes of one, after the same of the shapes of custom resources, pickled. A length and
what it means, pickled, go to stdout.
"""

from __future__ import annotations

import gc
import pickle
import struct
import sys
from contextlib import suppress
from typing import BinaryIO

from extauthz.core.intake import admission

LENGTH = struct.Struct(">I")


def serve(requests: BinaryIO, readings: BinaryIO) -> None:
    """Answer until there is nothing more to read."""
    while head := requests.read(LENGTH.size):
        shapes = pickle.loads(requests.read(*LENGTH.unpack(head)))  # noqa: S301 (the gate's)
        found = admission.read(requests.read(*LENGTH.unpack(requests.read(LENGTH.size))), shapes=shapes)
        reading = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
        readings.write(LENGTH.pack(len(reading)) + reading)
        readings.flush()


def main() -> None:
    """Serve on stdin and stdout."""
    gc.freeze()
    with suppress(BrokenPipeError, struct.error, EOFError):  # the gate ended in the middle
        serve(sys.stdin.buffer, sys.stdout.buffer)

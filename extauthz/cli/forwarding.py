"""A way to a gate that runs in a cluster, by ``kubectl port-forward``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from extauthz.cli.flags.asking import PLACE
from extauthz.servers.api.rights import Problem
from extauthz.service.setting_types import SettingsError

PORT: Final = 9192
"""Of health, metrics and the API."""

WITHIN_S: Final = 15.0

LOOK_S: Final = 0.02

_FORWARDING = re.compile(rb"Forwarding from (127\.0\.0\.1:\d+) ->")


def kubectl() -> str | None:
    """Where kubectl is, if it is there."""
    return shutil.which("kubectl")


@contextmanager
def forwarded(place: str) -> Iterator[str]:
    """The URL of a gate behind ``NAMESPACE/SERVICE``, as long as the context lasts.

    Raises:
        SettingsError: there is no kubectl, or that is no place.
        Problem: kubectl does not get there. It has kubectl's own words.
    """
    namespace, slash, service = place.partition("/")
    if not slash or not namespace or not service or "/" in service:
        raise SettingsError(f"--port-forward: {place!r} is no NAMESPACE/SERVICE; write for example {PLACE}")
    program = kubectl()
    if program is None:
        raise SettingsError("--port-forward: there is no kubectl in PATH; install it, or use --server URL")
    command = [program, "port-forward", "--namespace", namespace, "--address", "127.0.0.1", f"service/{service}"]
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen([*command, f":{PORT}"], stdout=said, stderr=errors) as child,  # noqa: S603
    ):
        try:
            address = _address(child, said)
            if address is None:
                raise Problem(
                    503, f"kubectl port-forward to {place}: {_why_not(errors)}; name another with --port-forward"
                )
            yield f"http://{address}"
        finally:
            child.terminate()


def _address(child: subprocess.Popen[bytes], said: IO[bytes]) -> str | None:
    """What kubectl listens on; ``None``: it has ended, or says nothing."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        has_ended = child.poll() is not None
        found = _FORWARDING.search(_all(said))
        if found is not None:
            return found[1].decode()
        if has_ended:
            return None
        time.sleep(LOOK_S)
    return None


def _why_not(errors: IO[bytes]) -> str:
    return _all(errors).decode(errors="replace").strip() or f"nothing came within {WITHIN_S:g} s"


def _all(file: IO[bytes]) -> bytes:
    """The beginning of what a child wrote: where it stands in the file is the child's own."""
    return os.pread(file.fileno(), 2_000, 0)

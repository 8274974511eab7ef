"""Answers of a gate that runs, over its HTTP API."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final
from urllib.parse import quote, urlencode

from extauthz.cli import credentials
from extauthz.cli.flags.asking import PLACE
from extauthz.core.model import WorkloadRef
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import named
from extauthz.serve.service.setting_types import SettingsError

TIMEOUT_S = 10.0


@contextmanager
def asked(arguments: argparse.Namespace) -> Iterator[Server]:
    """The gate that the flags name; without any, that of a default installation, by kubectl. Raises as ``source``."""
    if arguments.server is not None:
        yield Server(arguments.server, credentials.opener(arguments.ca, _shown(arguments)))
    else:
        with forwarded(arguments.port_forward or PLACE) as url:
            yield Server(url)


def _shown(arguments: argparse.Namespace) -> credentials.Shown:
    if arguments.kubeconfig is None:
        return credentials.of_flags(arguments)
    return credentials.of_kubeconfig(arguments.kubeconfig)


class Server:
    def __init__(self, url: str, opener: urllib.request.OpenerDirector | None = None) -> None:
        self._open = (opener or urllib.request.build_opener()).open
        if not url.startswith(("http://", "https://")):
            raise SettingsError(f"--server: {url!r} is no URL; write for example http://127.0.0.1:9192")
        self._root = f"{url.rstrip('/')}/api/v1"

    def quotas(self) -> list[dict[str, Any]]:
        page = self._ask("items", "/quotas")
        found: list[dict[str, Any]] = page["items"]
        while page["continue"] is not None:
            page = self._ask("items", "/quotas", {"continue": page["continue"]})
            found += page["items"]
        return found

    def quota(self, name: str) -> dict[str, Any]:
        return self._ask("resources", f"/quotas/{_part(name)}")

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        return self._ask("items", f"/quotas/{_part(quota)}/workloads", {"sort": sort, "limit": limit})

    def line(self, quota: str) -> dict[str, Any]:
        return self._ask("items", f"/quotas/{_part(quota)}/line")

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]:
        one = {key: _part(text) for key, text in named(ref).items()}
        path = f"/namespaces/{one['namespace']}/workloads/{one['resource']}/{one['name']}/headroom"
        return self._ask("replicas", path)

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._ask("verdict", "/decisions", body=asked)

    def _ask(
        self, member: str, path: str, query: Mapping[str, object] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """An answer, which has ``member`` if a gate gives it."""
        given = urlencode({key: value for key, value in (query or {}).items() if value is not None})
        url = f"{self._root}{path}{'?' * bool(given)}{given}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 (http or https)
        try:
            with self._open(request, timeout=TIMEOUT_S) as response:
                found = json.load(response)
        except urllib.error.HTTPError as error:
            with error:  # it is also the answer, and open
                raise Problem(error.code, _detail(error)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Problem(503, f"--server: {self._root} {_why(error)}") from None
        if not isinstance(found, dict) or member not in found:
            raise Problem(503, f"--server: {self._root} is no gate; is it the --http address of extauthz?")
        return found


def _why(error: Exception) -> str:
    """Why there was no answer."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"shows a certificate that is not trusted: {reason.verify_message}; name its authority with --ca"
    return f"does not answer: {reason}"


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        told = str(json.load(error)["detail"])
        return f"{told} ({credentials.CURE})" if error.code == 401 else told
    except (ValueError, KeyError, TypeError):
        return f"the server answered {error.code} {error.reason}; is it the --http address of extauthz?"


def _part(text: str) -> str:
    return quote(text, safe="")


# A way to a gate that runs in a cluster, by ``kubectl port-forward``.

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

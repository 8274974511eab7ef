"""Answers of a gate that runs, over its HTTP API."""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from extauthz.cli import credentials
from extauthz.core.model import WorkloadRef
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import named
from extauthz.serve.service.setting_types import SettingsError

TIMEOUT_S = 10.0


def asked(arguments: argparse.Namespace, kubeconfig: Path | None = None) -> Server:
    """The gate of ``--server``, which is shown what the flags say, or what the user of a kubeconfig has.

    Raises:
        SettingsError: it is no URL.
        FilesError, OSError: a file cannot be used.
    """
    shown = credentials.of_flags(arguments) if kubeconfig is None else credentials.of_kubeconfig(kubeconfig)
    return Server(arguments.server, credentials.opener(arguments.ca, shown))


class Server:
    def __init__(self, url: str, opener: urllib.request.OpenerDirector) -> None:
        self._open = opener.open
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

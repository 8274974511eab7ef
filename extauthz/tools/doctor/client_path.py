"""The client path: requests to the autoscaler's API server address, with its trust and its token."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from extauthz.serve.servers.ext_authz import DECISION_ID_HEADER

from . import canary
from .canary import Canary, CanaryReply
from .trust import Handshake, Identity, go_strict, shake

WITHIN_S = 15.0
"""For a request: longer than the gate may take, short enough for a person who waits."""

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class ClientPath:
    """The API server's URL as a client sees it. Each request has a connection of its own.

    Raises:
        OSError: ``ca`` holds no certificates; names it.
    """

    def __init__(self, url: str, ca: Path | None, token: str | None) -> None:
        parts = urlsplit(url)
        self._url = url.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = trusting(ca)
        self._token = token

    @property
    def host(self) -> str:
        return f"{self._host}:{self._port}"

    async def addresses(self) -> tuple[str, ...]:
        """Addresses of the host name; empty if it has none."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(each[4][0]) for each in found))

    async def handshake(self) -> Handshake:
        """A TLS handshake, verified as the client does it."""
        return await asyncio.to_thread(shake, (self._host, self._port), self._tls, self._host, WITHIN_S)

    async def identity(self) -> Identity:
        """The user that the API server sees for the token, through this path."""
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
        status, text, _ = await self._send("POST", REVIEWS, body, "application/json")
        try:
            said = json.loads(text)
            return Identity(user=said["status"]["userInfo"]["username"])
        except (ValueError, KeyError, TypeError):
            return Identity(error=f"{status or 'no answer'}: {message(text)}")

    async def canary(self, sent: Canary) -> CanaryReply:
        """Send one canary; its answer."""
        status, text, given = await self._send("PATCH", sent.target, sent.body, canary.MEDIA)
        return CanaryReply(status, given.get(DECISION_ID_HEADER, ""), message(text))

    async def _send(self, method: str, path: str, body: bytes, media: str) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers. Without an answer: status 0 and the reason as text."""
        headers = {"Content-Type": media, "Accept": "application/json", "User-Agent": "extauthz-doctor"}
        headers["Authorization"] = f"Bearer {self._token or NOBODYS_TOKEN}"
        url = URL(self._url + path, encoded=True)
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as session,
                session.request(
                    method, url, data=body, headers=headers, ssl=self._tls, allow_redirects=False
                ) as answer,
            ):
                return answer.status, (await answer.read()).decode(errors="replace"), answer.headers
        except TimeoutError:
            return 0, f"nothing came within {WITHIN_S:g} s", {}
        except (aiohttp.ClientError, OSError) as error:
            return 0, str(error) or type(error).__name__, {}


NOBODYS_TOKEN = "extauthz-doctor"  # noqa: S105 (no secret)
"""Sent where no token was given: without a token Envoy does not ask the gate (``render envoy --anonymous``). The API
server answers 401."""


def trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise OSError(f"--ca {ca}: {error.strerror or error}; it must hold certificates in PEM") from error
    return go_strict(context)


def message(text: str) -> str:
    """The message of a ``metav1.Status``, else the beginning of the text."""
    try:
        said = json.loads(text)
        return str(said["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]

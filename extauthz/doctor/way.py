"""Takes the way that an autoscaler takes: to the same address, with the same trust and the same token."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from . import canary, names
from .canary import Answer
from .trust import Handshake, Identity

WITHIN_S = 15.0
"""For each request: more than the gate's time and less than a person's patience."""

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Way:
    """An API server's URL as a client sees it. Needs ``async with``."""

    def __init__(self, url: str, ca: Path | None, token: str | None) -> None:
        parts = urlsplit(url)
        self._url = url.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = _trusting(ca)
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        """Host and port."""
        return f"{self._host}:{self._port}"

    async def __aenter__(self) -> Way:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls), trust_env=False)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def addresses(self) -> tuple[str, ...]:
        """What the name leads to; empty if it leads nowhere."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError:
            return ()
        return tuple(dict.fromkeys(str(each[4][0]) for each in found))

    async def handshake(self) -> Handshake:
        """One, verified as the client does."""
        try:
            async with asyncio.timeout(WITHIN_S):
                _, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, server_hostname=self._host
                )
        except ssl.SSLCertVerificationError as error:
            return Handshake(self.host, error.verify_message or str(error), refused=True)
        except TimeoutError:
            return Handshake(self.host, f"no TLS within {WITHIN_S:g} s")
        except OSError as error:
            return Handshake(self.host, str(error) or type(error).__name__)
        certificate: Mapping[str, Any] = writer.get_extra_info("peercert") or {}
        writer.transport.abort()
        alternatives = tuple(str(name) for _, name in certificate.get("subjectAltName", ()))
        return Handshake(self.host, expires=_expires(certificate), names=alternatives)

    async def identity(self) -> Identity:
        """Who the API server takes the token for, this way."""
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
        status, text, _ = await self._send("POST", REVIEWS, body, "application/json")
        try:
            said = json.loads(text)
            return Identity(user=said["status"]["userInfo"]["username"])
        except (ValueError, KeyError, TypeError):
            return Identity(error=f"{status or 'no answer'}: {_message(text)}")

    async def canary(self, namespace: str, name: str, body: bytes) -> Answer:
        """One write that can change nothing."""
        began_s = time.monotonic()
        path = canary.target(namespace, name)
        status, text, headers = await self._send("PATCH", path, body, canary.MEDIA)
        took_s = time.monotonic() - began_s
        return Answer(status, headers.get(names.DECISION_ID_HEADER, ""), _message(text), took_s)

    async def _send(self, method: str, path: str, body: bytes, media: str) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers; status 0 and why, if there is no answer."""
        assert self._session is not None
        headers = {"Content-Type": media, "Accept": "application/json", "User-Agent": "extauthz-doctor"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = URL(self._url + path, encoded=True)
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        try:
            async with self._session.request(method, url, data=body, headers=headers, timeout=timeout) as answer:
                return answer.status, await answer.text(errors="replace"), answer.headers
        except TimeoutError:
            return 0, f"nothing came within {WITHIN_S:g} s", {}
        except (aiohttp.ClientError, OSError) as error:
            return 0, str(error) or type(error).__name__, {}


def _trusting(ca: Path | None) -> ssl.SSLContext:
    """As strict as Go, which many a cluster's authority relies on."""
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise OSError(f"--ca {ca}: {error.strerror or error}; it must hold certificates in PEM") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _expires(certificate: Mapping[str, Any]) -> datetime | None:
    ends = certificate.get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC) if ends else None


def _message(text: str) -> str:
    """Of a ``metav1.Status``, else the beginning of the text."""
    try:
        said = json.loads(text)
        return str(said["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]

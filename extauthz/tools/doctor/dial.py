"""Dials addresses of the API server from where the doctor runs: who is there, and is a write decided?

Nobody is told a token before it has shown a certificate of an authority that was named, made out to the address or to
the API server. No certificate of a client is shown: the kubeconfig's is an administrator's, and ends at Envoy.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
from yarl import URL

from extauthz.inputs.kube.session import Trust
from extauthz.serve.servers.ext_authz import DECISION_ID_HEADER
from extauthz.serve.service.setting_types import Address

from . import canary, client_path
from .canary import Canary, CanaryReply
from .client_path import Found, State, headers, message, trusting

CONNECT_WITHIN_S = 3.0
"""A first packet that is lost is sent again after 1 s (RFC 6298, 2.1): one may be."""
WITHIN_S = 15.0
"""For TLS and the answer. An Envoy that finds nobody behind it gives up after 10 s (Istio's ``connectTimeout``)."""
ENOUGH_BYTES = 64 * 1024

API_SERVER = "kubernetes.default.svc"
"""Every API server's certificate has it: https://kubernetes.io/docs/setup/best-practices/certificates/"""
OTHER_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH (openssl/x509_vfy.h): vouched for, but for others."""


class Probe(NamedTuple):
    """A write, and who may be told it."""

    canary: Canary
    tls: ssl.SSLContext
    server_names: tuple[str, ...]
    """Names that a certificate may have, beside the address."""
    token: str | None
    within_s: float = WITHIN_S


def probe(sent: Canary, token: str | None, ca: Path | None, trust: Trust) -> Probe:
    """The write that was decided. Vouched for by ``ca`` (the autoscaler's) or by what the kubeconfig trusts.

    Raises:
        OSError: one of both holds no certificates.
    """
    named = [each for each in (ca, trust.ca) if each is not None]
    tls = trusting(named[0] if named else None)
    for each in named[1:]:
        tls.load_verify_locations(each)
    return Probe(sent, tls, tuple(filter(None, (trust.server_name, API_SERVER))), token)


async def dial(addresses: Sequence[Address], tried: Probe | None) -> list[Found]:
    """What was found at each address, all at once. ``tried``: ``None``: only connect."""
    return list(await asyncio.gather(*(_dialled(each, tried) for each in addresses)))


async def _dialled(address: Address, tried: Probe | None) -> Found:
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return Found(address, State.CLOSED, f"no connection (nothing came within {CONNECT_WITHIN_S:g} s)")
    except (OSError, UnicodeError) as error:
        return Found(address, State.CLOSED, f"no connection ({_why(error)})")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    if tried is None:
        return Found(address, State.UNKNOWN, "a connection")
    return await _tried(address, tried)


async def _tried(address: Address, tried: Probe) -> Found:
    try:
        async with asyncio.timeout(tried.within_s), aiohttp.ClientSession(trust_env=False) as session:
            return await _written(session, address, tried)
    except TimeoutError:
        return Found(address, State.UNKNOWN, f"a connection, but no answer within {tried.within_s:g} s,")
    except aiohttp.ClientSSLError as error:
        return Found(address, State.UNKNOWN, f"no TLS ({_why(error.os_error)})")
    except aiohttp.ClientConnectorError:
        return Found(address, State.CLOSED, "no connection (ended before TLS)")
    except (aiohttp.ClientError, OSError) as error:
        return Found(address, State.UNKNOWN, f"no answer ({_why(error)})")


async def _written(session: aiohttp.ClientSession, address: Address, tried: Probe) -> Found:
    """By the first name that its certificate is made out to."""
    why = ""
    for server_name in dict.fromkeys((address.host, *tried.server_names)):
        try:
            return client_path.classify(address, await _answer(session, address, tried, server_name))
        except aiohttp.ClientConnectorCertificateError as error:
            refused = error.certificate_error
            why = why or getattr(refused, "verify_message", "") or str(refused)
            if getattr(refused, "verify_code", None) not in OTHER_NAME:
                break
    return Found(address, State.UNKNOWN, f"no write, for a certificate that is not trusted ({why.rstrip('.')}),")


async def _answer(session: aiohttp.ClientSession, address: Address, tried: Probe, server_name: str) -> CanaryReply:
    """The answer to the canary. A redirect is an answer: the server that it names has shown no certificate."""
    async with session.patch(
        URL(f"https://{address}{tried.canary.target}", encoded=True),
        data=tried.canary.body,
        headers=headers(canary.MEDIA, tried.token),
        ssl=tried.tls,
        server_hostname=server_name,
        allow_redirects=False,
    ) as answer:
        text = (await answer.content.read(ENOUGH_BYTES)).decode(errors="replace")
        return CanaryReply(answer.status, answer.headers.get(DECISION_ID_HEADER, ""), message(text))


def _why(error: Exception) -> str:
    """The error without the address, which the sentence names already."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and number and number > 0:
        return os.strerror(number)
    return str(error) or type(error).__name__

"""When the authority and the certificate are renewed: a function of time and of what exists, so all gates agree.

An API server must trust an authority before it meets a certificate of it. So a new authority joins the bundle first,
and signs once every configuration has had it for a while. An earlier one stays in the bundle until it has expired: by
then no certificate of it is valid.
"""

from __future__ import annotations

import base64
from collections.abc import Set
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import ApiError, get_or_none
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.serve.selfsigned import issuing
from extauthz.serve.selfsigned.issuing import Certificate, Held, Pair

AUTHORITY = 4
"""An authority lives so many times as long as a serving certificate."""


class Terms(NamedTuple):
    """How long things last."""

    serving: timedelta

    @property
    def authority(self) -> timedelta:
        return AUTHORITY * self.serving

    @property
    def look_s(self) -> float:
        """How often a gate looks. It bounds how long a Secret or a configuration that somebody broke stays so."""
        return min(max(self.serving.total_seconds() / 30, 0.5), 10.0)

    @property
    def spread(self) -> timedelta:
        """How long a new authority waits for all API servers to have seen it."""
        return timedelta(seconds=6 * self.look_s)


class NoNamesError(Exception):
    """Nobody has said yet which names the certificate is for."""


def renewed(held: Held | None, names: Set[str], now: datetime, terms: Terms, *, trusted: bool, anew: bool) -> Held:
    """What should be in force now: ``held`` itself if nothing is due.

    Args:
        names: by which API servers call. None: those of the certificate that is there.
        trusted: every configuration has the authority that signs.
        anew: a new authority, whatever the old one's age.

    Raises:
        NoNamesError: there is neither a certificate nor a name for one.
    """
    signer = held.signer if held is not None else None
    if signer is None or anew or is_due(signer.certificate, now):
        signer, trusted = issuing.authority(now, terms.authority), False
    else:
        trusted = trusted and now >= issuing.made(signer.certificate) + terms.spread
    known = held.authorities if held is not None else ()
    others = tuple(one for one in known if one != signer.certificate and one.not_valid_after_utc > now)
    serving = _serving(held, signer, names, now, terms, trusted=trusted)
    found = Held(signer, others, serving)
    return held if held is not None and found == held else found


def _serving(held: Held | None, signer: Pair, names: Set[str], now: datetime, terms: Terms, *, trusted: bool) -> Pair:
    if held is None:
        return issuing.serving(signer, _needed(names), now, terms.serving)
    shown = held.serving.certificate
    present = issuing.names_of(shown)
    if shown.not_valid_after_utc <= now:
        return issuing.serving(signer, names or present, now, terms.serving)
    if not trusted:
        return held.serving
    if is_due(shown, now) or not issuing.is_from(shown, signer.certificate):
        return issuing.serving(signer, names or present, now, terms.serving)
    if not names <= present:
        return issuing.serving(signer, names | present, now, terms.serving)
    return held.serving


def is_due(certificate: Certificate, now: datetime) -> bool:
    """Whether two thirds of its life are over."""
    made = issuing.made(certificate)
    return now >= made + 2 * (certificate.not_valid_after_utc - made) / 3


def _needed(names: Set[str]) -> Set[str]:
    if not names:
        raise NoNamesError
    return names


GROUP = "admissionregistration.k8s.io"

KINDS = tuple(
    Resource(GROUP, "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)

STRATEGIC = "application/strategic-merge-patch+json"
"""It merges webhooks by their names (``k8s.io/api/admissionregistration/v1``)."""


class Hook(NamedTuple):
    name: str
    called: str
    """The DNS name or address that the certificate must have; empty if it names none."""
    bundle: bytes


class Configuration(NamedTuple):
    path: str
    version: str
    hooks: tuple[Hook, ...]


async def read(api: Calls, name: str) -> list[Configuration]:
    """Those of this name that are there. Raises ApiError and Unreachable."""
    found = []
    for kind in KINDS:
        path = kind.object(None, name)
        if (tree := await get_or_none(api, path)) is not None:
            hooks = tuple(_hook(one) for one in tree.get("webhooks") or ())
            found.append(Configuration(path, tree["metadata"]["resourceVersion"], hooks))
    return found


async def trust(api: Calls, configuration: Configuration, bundle: bytes) -> bool:
    """Have API servers trust this bundle. False if somebody else has changed the configuration since it was read.

    Raises: ApiError and Unreachable.
    """
    text = base64.b64encode(bundle).decode()
    hooks = [{"name": one.name, "clientConfig": {"caBundle": text}} for one in configuration.hooks]
    body = {"metadata": {"resourceVersion": configuration.version}, "webhooks": hooks}
    try:
        await api.call("PATCH", configuration.path, body=body, content_type=STRATEGIC)
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _hook(tree: Tree) -> Hook:
    client = tree.get("clientConfig") or {}
    service = client.get("service")
    called = f"{service['name']}.{service['namespace']}.svc" if service else urlsplit(client.get("url") or "").hostname
    try:
        bundle = base64.b64decode(client.get("caBundle") or "")
    except ValueError:
        bundle = b""
    return Hook(tree["name"], called or "", bundle)

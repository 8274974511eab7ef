"""Keeps the certificate: looks, renews what is due, has API servers trust it, and shows it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import ApiError, Unreachable, get_or_none
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.serve.selfsigned import issuing, renewal
from extauthz.serve.selfsigned.issuing import BrokenError, Held
from extauthz.serve.selfsigned.renewal import Configuration, NoNamesError, Terms

# The Secret that gates share. The API server arbitrates: it takes a write of the version that it has, and no other.


SECRETS = Resource("", "v1", "secrets", "Secret")


class ConflictError(Exception):
    """Another gate was faster."""


class MissingError(Exception):
    """There is no such Secret."""


class SecretPlace(NamedTuple):
    """Where the Secret is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return SECRETS.object(self.namespace, self.name)


async def get(api: Calls, place: SecretPlace) -> Tree:
    """The object.

    Raises:
        MissingError: there is none. Gates do not make it: who may create Secrets can have one made for any account.
        ApiError, Unreachable: as a call does.
    """
    if (found := await get_or_none(api, place.path)) is None:
        raise MissingError
    return found


async def put(api: Calls, place: SecretPlace, held: Held, before: Tree) -> None:
    """Store it in place of ``before``.

    Raises:
        ConflictError: there is another one by now.
        ApiError, Unreachable: as a call does.
    """
    data = {name: base64.b64encode(value).decode() for name, value in issuing.written(held).items()}
    try:
        await api.call("PUT", place.path, body={**before, "data": data})
    except ApiError as error:
        if error.status in (404, 409):
            raise ConflictError from error
        raise


def held(secret: Tree) -> Held:
    """What it holds. Raises BrokenError."""
    try:
        data = {name: base64.b64decode(value, validate=True) for name, value in (secret.get("data") or {}).items()}
    except ValueError as error:
        raise BrokenError(f"no base64 ({error})") from None
    return issuing.read(data)


TRIES: Final = 5


class Keeper:
    """One gate's part in it. Several gates do the same, and agree by the Secret.

    Args:
        configuration: the name of the webhook configurations.
        now: with a time zone.
        show: takes certificate and key, PEM, for all handshakes from now on.
    """

    def __init__(
        self,
        api: Calls,
        place: SecretPlace,
        configuration: str,
        terms: Terms,
        now: Callable[[], datetime],
        show: Callable[[bytes, bytes], None],
        tell: Tell,
    ) -> None:
        self._api = api
        self._place = place
        self._configuration = configuration
        self._terms = terms
        self._now = now
        self._show = show
        self._tell = tell
        self.held: Held | None = None
        """What is shown."""
        self.problem = "it is being made"
        """Why there is none, or why it cannot be renewed; empty if all is well."""
        self.shown = asyncio.Event()

    async def run(self) -> None:
        """Look from time to time, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._terms.look_s)

    async def look(self) -> None:
        """Do what is due. A problem is told once, and tried again at the next look."""
        try:
            await self._look()
        except NoNamesError:
            self._fail(f"no webhook configuration is named {self._configuration}; apply one (docs/webhook.md)")
        except MissingError:
            self._fail(f"{self._place} is not there; apply the chart again, or make an empty one (docs/webhook.md)")
        except ConflictError:
            self._fail(f"{self._place}: others change it all the time")
        except ApiError as error:
            cure = "; let the gate do that (docs/webhook.md)" if error.status == 403 else ""
            self._fail(f"{error}{cure}")
        except Unreachable as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(f"{self._place}: TLS does not take what it holds ({error}); delete it")
        else:
            self.problem = ""

    async def _look(self) -> None:
        # In this order: whoever sees a bundle that another gate has made sees the Secret of it too. So nobody takes a
        # newer authority away from a configuration.
        found = await renewal.read(self._api, self._configuration)
        held = await self._agreed(found)
        if self.held is None or held.serving.certificate != self.held.serving.certificate:
            self._show(*held.serving.pem)
            ends = held.serving.certificate.not_valid_after_utc
            self._tell("info", "certificate-shown", secret=str(self._place), ends=ends.isoformat())
        self.held = held
        self.shown.set()
        for one in found:
            if any(hook.bundle != held.bundle for hook in one.hooks):
                await self._trusted(one, held)

    async def _trusted(self, one: Configuration, held: Held) -> None:
        if await renewal.trust(self._api, one, held.bundle):
            self._tell("info", "authority-trusted", configuration=one.path, authorities=len(held.authorities))

    async def _agreed(self, found: Sequence[Configuration]) -> Held:
        """What the Secret holds, after writing what was due.

        Raises:
            ConflictError: others were faster each time.
        """
        for _ in range(TRIES):
            stored = await get(self._api, self._place)
            before = self._read(stored)
            # What is empty or broken is made anew. What this gate still shows stays trusted meanwhile.
            base = before if before is not None else self.held
            held = self._renewed(base, found, anew=before is None)
            if held is before:
                return held
            try:
                await put(self._api, self._place, held, stored)
            except ConflictError:
                continue
            kept = base is not None and base.signer is held.signer
            self._tell("info", "certificate-renewed", secret=str(self._place), authority="kept" if kept else "new")
            return held
        raise ConflictError

    def _renewed(self, base: Held | None, found: Sequence[Configuration], *, anew: bool) -> Held:
        hooks = [hook for one in found for hook in one.hooks]
        trusted = base is not None and all(issuing.pem(base.authorities[0]) in hook.bundle for hook in hooks)
        names = {hook.called for hook in hooks if hook.called}
        return renewal.renewed(base, names, self._now(), self._terms, trusted=trusted, anew=anew)

    def _read(self, stored: Tree) -> Held | None:
        if not stored.get("data"):
            return None  # as the chart makes it
        try:
            return held(stored)
        except BrokenError as error:
            self._tell("error", "certificate-broken", secret=str(self._place), problem=str(error))
            return None

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            self._tell("error", "certificate-problem", problem=problem)
        self.problem = problem

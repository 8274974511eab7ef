"""The webhook's certificate where the gates make it themselves, for the listener, readiness and metrics."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from extauthz.kube.connection import Connection
from extauthz.kube.credentials import own_namespace
from extauthz.observe.log import Tell
from extauthz.selfsigned.keeper import Keeper, Place
from extauthz.selfsigned.renewal import Terms
from extauthz.service.certificates import Handshakes
from extauthz.service.settings import Settings

NAMESPACE = "extauthz-system"
"""Where the Secret is, if the gate runs in no pod."""


class SelfSigned:
    """As ``certificates.WebhookCertificates``, but from a Secret."""

    def __init__(self, settings: Settings, connection: Connection, tell: Tell) -> None:
        self._handshakes = Handshakes(tell, settings.webhook_client_ca)
        self.context = self._handshakes.context
        """For the listener."""
        terms = Terms(timedelta(seconds=settings.webhook_cert_lifetime_s))
        self._keeper = Keeper(
            connection,
            place(settings),
            settings.webhook_configuration,
            terms,
            lambda: datetime.fromtimestamp(time.time(), UTC),
            self._handshakes.show,
            tell,
        )

    async def watch(self) -> None:
        """Keep it, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(self._handshakes.watch())

    async def waited(self, stop: asyncio.Event) -> bool:
        """Wait until there is a certificate; False if told to stop before."""
        waiting = [asyncio.ensure_future(one.wait()) for one in (self._keeper.shown, stop)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return not stop.is_set()

    @property
    def problem(self) -> str:
        """Why there is none, or why it cannot be renewed; empty if all is well."""
        return self._keeper.problem

    def ends_s(self) -> dict[str, float]:
        """When what ends, in seconds since the epoch."""
        held = self._keeper.held
        if held is None:
            return {}
        shown = {"webhook": held.serving.certificate, "webhook-authority": held.signer.certificate}
        return {use: one.not_valid_after_utc.timestamp() for use, one in shown.items()}


def place(settings: Settings) -> Place:
    """Where the Secret is."""
    namespace, _, name = settings.webhook_secret.rpartition("/")
    in_pod = own_namespace() if settings.kubeconfig is None else None
    return Place(namespace or in_pod or NAMESPACE, name)

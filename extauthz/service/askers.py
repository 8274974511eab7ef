"""Follows what the webhook configurations say, where this gate has a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extauthz.core.intake.admission import CLAMP_NAME, NAME
from extauthz.kube import webhooks
from extauthz.kube.connection import ApiError, Unreachable
from extauthz.kube.resource import Calls
from extauthz.kube.webhooks import Webhooks
from extauthz.observe.log import Log
from extauthz.observe.serving import Serving
from extauthz.service.setting_types import OFF
from extauthz.service.settings import Settings

EVERY_S = 10.0
"""How often they are read: two objects by name."""

RIGHT = "the gates need get of validatingwebhookconfigurations and mutatingwebhookconfigurations named {}"


class Askers:
    """Who asks the gates.

    Args:
        to_lower: whether somebody has asked to lower a count.
    """

    def __init__(self, settings: Settings, log: Log, to_lower: Callable[[], bool]) -> None:
        self._audits = settings.mode == "audit"
        self._has_webhook = settings.webhook is not None
        self._by_envoy = settings.grpc != OFF
        self._configuration = settings.webhook_configuration
        self._log = log
        self._to_lower = to_lower
        self._webhooks: Webhooks | None = None
        self._unknown = ""

    def serving(self) -> Serving:
        """As far as is known."""
        return Serving(self._audits, self._webhooks, self._unknown, self._by_envoy, self._to_lower())

    async def run(self, api: Calls) -> None:
        """Read them again and again, for ever; at once if there is no webhook."""
        while self._has_webhook:
            await self.look(api)
            await asyncio.sleep(EVERY_S)

    async def look(self, api: Calls) -> None:
        """Read them once. What cannot be read is not known; without an answer, what was known stays."""
        try:
            self._webhooks = await webhooks.read(api, self._configuration, {NAME, CLAMP_NAME}.__contains__)
            unknown = ""
        except ApiError as error:
            self._webhooks = None
            unknown = RIGHT.format(self._configuration) if error.status in (401, 403) else str(error)
        except Unreachable:
            return
        if unknown and unknown != self._unknown:
            self._log.event("warning", "webhook-unknown", why=unknown)
        self._unknown = unknown

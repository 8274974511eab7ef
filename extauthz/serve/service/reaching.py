"""Tries, again and again, whether the API server reaches a gate by the webhook: a blocked firewall, a certificate that
it does not trust, a Service without endpoints, and who answers for a gate are seen before somebody's growth fails.

A trial is a dry run that creates a WorkspaceLedger. Gates have that right anyway, nothing is stored, and whichever gate
is asked refuses it in words of its own (``servers.webhook``). It needs no metrics of the control plane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from extauthz.core.intake.admission import NAME
from extauthz.core.model import Tree
from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Calls
from extauthz.serve.ledger_store.kubernetes import WORKSPACE_LEDGERS
from extauthz.serve.servers.webhook import REACHED

EVERY_S: Final = 15.0
"""The alert waits for a minute, and is to fire within two."""

FAILED: Final = f'failed calling webhook "{NAME}"'
"""How the API server begins where it fails closed."""

ALLOWED: Final[dict[str, str]] = {
    "Fail": "what each gate refuses was allowed: somebody who is no gate answers, or the webhook's rules were changed;"
    " see which pods the Service selects",
    "Ignore": "what each gate refuses was allowed: no gate answers, or somebody who is none, and growth passes",
}
"""By what is done while nobody answers."""

TRIAL: Final[Tree] = {
    "apiVersion": WORKSPACE_LEDGERS.api_version,
    "kind": WORKSPACE_LEDGERS.kind,
    "metadata": {"name": "trial"},
    "spec": {"payload": ""},
}


class Reaching:
    """What the last trial has shown.

    Args:
        has_webhook: this gate serves one. Without it nothing is tried.
        tell: told when the API server reaches no gate any more, and when it does again.
        unanswered: the webhook's ``failurePolicy``; empty: none is installed, or it is not known.
    """

    def __init__(self, has_webhook: bool, tell: Tell, unanswered: Callable[[], str] = str) -> None:
        self._has_webhook = has_webhook
        self._tell = tell
        self._unanswered = unanswered
        self._was_reached = False
        self._failed = 0
        """Trials in a row in which the API server got no answer."""
        self.reached: bool | None = None
        """``None``: it is not known. The webhook is not installed, or no trial was ever refused: it is of an older
        version, is not asked about ledgers (``objectSelector``, a condition of one's own), or fails open."""
        self._why = ""
        self._is_told = False

    async def run(self, api: Calls) -> None:
        """Try for ever. Ends by cancellation."""
        while self._has_webhook:
            await asyncio.sleep(EVERY_S)
            await self.look(api)

    async def look(self, api: Calls) -> None:
        """Try once. While the API server itself does not answer, or has no time, all stays as it is."""
        try:
            await api.call("POST", WORKSPACE_LEDGERS.collection(), query=[("dryRun", "All")], body=TRIAL)
        except Unreachable:
            return
        except ApiError as error:
            if error.status == 429:
                return
            is_known = REACHED in error.message or FAILED in error.message
            self.reached, self._why = (REACHED in error.message if is_known else None), error.message
        else:
            self._passed()
        self._was_reached = self._was_reached or self.reached is True
        self._failed = self._failed + 1 if self.reached is False and FAILED in self._why else 0
        self._say()

    def _say(self) -> None:
        if self.reached is False and not self._is_told:
            self._is_told = True
            self._tell("error", "webhook-not-reached", why=self._why)
        if self.reached and self._is_told:
            self._is_told = False
            self._tell("info", "webhook-reached")

    def _passed(self) -> None:
        """Nobody refused the trial. Where a gate once did, none has answered now."""
        self._why = ALLOWED.get(self._unanswered(), "") if self._was_reached else ""
        self.reached = False if self._why else None

    @property
    def is_unreached(self) -> bool:
        """Whether the API server got no answer in two trials in a row, as all gates come to see: a single one may meet
        a gate that ends. That somebody else answers depends on what one gate has seen."""
        return self._failed > 1

    def notes(self) -> list[str]:
        """Sentences for ``/readyz``."""
        return [f"the API server reaches no gate: {self._why}"] if self.reached is False else []

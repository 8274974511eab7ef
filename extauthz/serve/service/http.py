"""A platform's own service, asked for quotas."""

from __future__ import annotations

from extauthz.inputs.sources.http import Endpoint, HttpQuotas
from extauthz.serve.service.inputs import GatheredQuotaInput, Into, Stale
from extauthz.serve.service.setting_types import key_of
from extauthz.serve.service.settings import Settings


class ServiceQuotaInput(GatheredQuotaInput):
    """Quotas from a service."""

    def __init__(self, settings: Settings, into: Into) -> None:
        assert isinstance(settings.quotas, str)
        super().__init__(into)
        cert, timeout_s = settings.source_cert, settings.numbers.quotas_timeout_s
        key = key_of(cert) if cert is not None else None
        where = Endpoint(settings.quotas, timeout_s, settings.source_token_file, settings.ca, cert, key)
        self._stale_after_s = settings.numbers.stale_after_s
        self._shown = where.shown
        self._failing = ""
        self._quotas = HttpQuotas(where, settings.numbers.quotas_every_s, self._accept, self._asked, into.clock)

    async def follow(self) -> None:
        await self._quotas.run()

    def _asked(self, result: str, why: str) -> None:
        """Counts results of requests. Logs each new error once, and the end of errors."""
        log, where = self._into.log, {"source": self.name, "url": self._shown}
        self._into.metrics.asked(self.name, result)
        if why and why != self._failing:
            log.event("warning", "source-failed", **where, error=why)
        if self._failing and not why:
            log.event("info", "source-answers", **where)
        self._failing = why

    def missing(self) -> list[str]:
        if self.known.is_set():
            return []
        why = f": {self._quotas.error}" if self._quotas.error else ""
        return [f"{self._shown} has not said yet what quotas there are{why}"]

    def stale(self) -> Stale | None:
        good_s = self._quotas.good_s
        if good_s is None or (age_s := self._into.clock() - good_s) <= self._stale_after_s:
            return None
        error = self._quotas.error
        return Stale(f"{self._shown} has not said for {age_s:.0f} s what quotas there are ({error})", True)

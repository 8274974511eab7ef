"""A platform's own service, asked for quotas."""

from __future__ import annotations

from extauthz.inputs.sources.http import Endpoint, HttpQuotas
from extauthz.serve.service.inputs import GatheredQuotaInput, Into, Stale
from extauthz.serve.service.setting_types import key_of
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics


def endpoint(url: str, timeout_s: float, settings: Settings) -> Endpoint:
    """Where a service is, with the credentials of the settings."""
    one = settings
    key = key_of(one.source_cert) if one.source_cert is not None else None
    return Endpoint(url, timeout_s, one.source_token_file, one.ca, one.source_cert, key)


class RequestResults:
    """Counts results of requests. Logs each new error once, and the end of errors."""

    def __init__(self, source: str, endpoint: Endpoint, log: Log, metrics: Metrics) -> None:
        self._source = source
        self._url = endpoint.shown
        self._log = log
        self._metrics = metrics
        self._failing = ""

    def __call__(self, result: str, why: str) -> None:
        self._metrics.asked(self._source, result)
        if why and why != self._failing:
            self._log.event("warning", "source-failed", source=self._source, url=self._url, error=why)
        if self._failing and not why:
            self._log.event("info", "source-answers", source=self._source, url=self._url)
        self._failing = why


class ServiceQuotaInput(GatheredQuotaInput):
    """Quotas from a service."""

    def __init__(self, settings: Settings, into: Into) -> None:
        assert isinstance(settings.quotas, str)
        super().__init__(into)
        self._stale_after_s = settings.numbers.stale_after_s
        self._endpoint = endpoint(settings.quotas, settings.numbers.quotas_timeout_s, settings)
        told = RequestResults(self.name, self._endpoint, into.log, into.metrics)
        self._quotas = HttpQuotas(self._endpoint, settings.numbers.quotas_every_s, self._accept, told, into.clock)

    async def follow(self) -> None:
        await self._quotas.run()

    def missing(self) -> list[str]:
        if self.known.is_set():
            return []
        why = f": {self._quotas.error}" if self._quotas.error else ""
        return [f"{self._endpoint.shown} has not said yet what quotas there are{why}"]

    def stale(self) -> Stale | None:
        good_s = self._quotas.good_s
        if good_s is None or (age_s := self._into.clock() - good_s) <= self._stale_after_s:
            return None
        error = self._quotas.error
        return Stale(f"{self._endpoint.shown} has not said for {age_s:.0f} s what quotas there are ({error})", True)

"""Cures for a gate that the chart installed: values of its release, as an upgrade undoes all else."""

from __future__ import annotations

from collections.abc import Sequence

from . import cluster, webhook
from .table import Row

_VALUES = {
    cluster.APPLY: "",
    webhook.RENDER_AGAIN: "",
    webhook.INSTALL: "--set webhook.enabled=true,webhook.certificates=self-signed",
    webhook.FAIL_CLOSED: "--set webhook.failurePolicy=Fail, before a quota has the mode Enforce or Clamp",
    webhook.TRUSTED: "--set webhook.certificates=self-signed",
    webhook.MAY_MAKE: "--set webhook.certificates=self-signed",
    webhook.LABEL: "--set-json 'webhook.namespaceSelector={}', or kubectl label namespace NAME as that selector asks",
    webhook.LOWER: "--set webhook.clamp=true",
}


def cured(rows: Sequence[Row], release: str, namespace: str) -> list[Row]:
    """The rows, with cures that fit a release in a namespace."""
    upgrade = f"helm upgrade {release} charts/extauthz -n {namespace} --reuse-values"
    return [
        row._replace(cure=f"{upgrade} {_VALUES[row.cure]}".rstrip()) if row.cure in _VALUES else row for row in rows
    ]

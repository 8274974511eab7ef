"""Pods that an HPA scales behind a Service, and what they lack."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.tools.doctor import serving
from extauthz.tools.doctor.appliers import Scaled
from extauthz.tools.doctor.table import Verdict

PROBED, BARE = {"readinessProbe": {"httpGet": {"port": 80}}}, {"livenessProbe": {"httpGet": {"port": 80}}}


def scaled(*containers: dict[str, Any], namespace: str = "shop", **pod: Any) -> Scaled:
    template = {"metadata": {"labels": {"app": "web", "tier": "a"}}, "spec": {"containers": [*containers], **pod}}
    metadata = {"name": "web", "namespace": namespace}
    return Scaled({"metadata": metadata, "spec": {"template": template}}, "web")


def service(selector: dict[str, str] | None) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": selector}}


@pytest.mark.parametrize(
    ("workload", "selector", "lacks"),
    [
        (scaled(BARE), {"app": "web"}, "no readiness probe"),
        (scaled(PROBED, terminationGracePeriodSeconds=0), {"app": "web"}, "no time to end"),
        (scaled(BARE, terminationGracePeriodSeconds=0), {"app": "web"}, "no readiness probe, no time to end"),
        (scaled(BARE, PROBED, terminationGracePeriodSeconds=30), {"app": "web"}, None),
        (scaled(BARE), {"app": "api"}, None),
        (scaled(BARE), None, None),
        (scaled(BARE, namespace="lab"), {"app": "web"}, None),
    ],
    ids=["probe", "time", "both", "a sidecar without", "another Service", "no selector", "another namespace"],
)
def test_what_a_serving_pod_lacks_is_told(workload: Scaled, selector: dict[str, str] | None, lacks: str | None):
    row = serving.row([workload], [service(selector)])
    if lacks is None:
        assert row.verdict is Verdict.OK
    else:
        assert (row.verdict, row.found) == (Verdict.WARN, f"a Service leads to pods of shop/web ({lacks})")

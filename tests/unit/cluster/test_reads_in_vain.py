"""What a read says where it brings nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from extauthz.cluster.live import LiveCluster
from extauthz.cluster.reads import Reader
from extauthz.core.model import WorkloadRef
from extauthz.kube.connection import ApiError, Connection, Unreachable
from extauthz.kube.resource import Resource
from extauthz.settlement.reads import Result
from extauthz.testing.builders import gate, quota, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


class Cluster:
    """In place of a live one."""

    def __init__(self, *resources: Resource, is_listed: bool = True) -> None:
        self.resources = {(one.group, one.plural): one for one in resources}
        self._is_listed = is_listed

    def serves(self, kind: tuple[str, str]) -> bool:
        return kind in self.resources or not self._is_listed


class Failing:
    """In place of a connection."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def call(self, *args: Any, **flags: Any) -> dict[str, Any]:
        raise self._error


async def brought(cluster: Cluster, error: Exception) -> tuple[Result, bool, str, int]:
    """And how many pods are counted afterwards."""
    made = gate([quota("acme", {"pods": "9"})], workload("web", 2))
    reader = Reader(cast("Connection", Failing(error)), made, cast("LiveCluster", cluster))
    result = await reader.bring(WEB)
    return *result, next(row.used // 10**9 for row in made.usage())


@pytest.mark.parametrize(
    ("is_listed", "is_shown", "why", "pods"),
    [
        pytest.param(True, True, "there is no such custom resource that can be scaled", 0, id="gone"),
        pytest.param(False, False, "custom resources have not been listed yet", 2, id="unknown"),
    ],
)
async def test_of_a_kind_that_is_not_watched_there_is_nothing_once_all_kinds_are_known(
    is_listed: bool, is_shown: bool, why: str, pods: int
):
    found = await brought(Cluster(is_listed=is_listed), AssertionError("nobody asks"))
    assert found == (Result.UNKNOWN_KIND, is_shown, why, pods)


@pytest.mark.parametrize(
    ("error", "result", "why"),
    [
        (ApiError(403, "Forbidden", "no"), Result.FORBIDDEN, "403 Forbidden: no"),
        (ApiError(500, "InternalError", "no"), Result.REFUSED, "500 InternalError: no"),
        (Unreachable("no answer"), Result.UNREACHABLE, "no answer"),
    ],
)
async def test_what_could_not_be_read_is_as_it_was(error: Exception, result: Result, why: str):
    deployments = Resource("apps", "v1", "deployments", "Deployment")
    said, is_shown, text, pods = await brought(Cluster(deployments), error)
    assert (said, is_shown, pods) == (result, False, 2)
    assert text.startswith(why)

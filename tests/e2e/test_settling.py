"""What a real API server answers after an allow frees the room, or settles it, long before W; through a real Envoy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane.access import service_account
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.controlplane.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

MERGE = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
W_S = 3600
"""So long that nothing here can end by it."""
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster of its own, whose gate waits an hour where it is told nothing."""
    folder = tmp_path_factory.mktemp("patient")
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        World(plane, folder, [f"--window-s={W_S}"]) as world,
    ):
        yield world


class Team:
    """A workspace with room for four pods, two of them taken, and requests to it with any token. A context manager."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.workspace = Workspace(world, f"settling-{next(_NUMBERS)}", {"pods": "4"})
        self.tokens = {"administrator": service_account(world.plane, "kube-system", "settler", "cluster-admin")}

    def __enter__(self) -> Team:
        self.workspace.__enter__()
        for name in ("web", "other"):
            self.workspace.create(workload(name, 1, {"cpu": "1m"}))
        eventually(lambda: self.usage() == (2, 0), self.usage)
        return self

    def __exit__(self, *error: object) -> None:
        self.workspace.__exit__(None, None, None)

    def path(self, name: str = "web", query: str = "") -> str:
        return f"/apis/apps/v1/namespaces/{self.workspace.namespace}/deployments/{name}/scale{query}"

    def scale(self, replicas: int, *, path: str = "", token: str = "administrator", **options: Any) -> httpx.Response:
        body = json.dumps({"spec": {"replicas": replicas}})
        headers = {"authorization": f"Bearer {self.tokens.get(token, token)}"}
        options = {"content": body, "headers": MERGE} | options
        options["headers"] = headers | options["headers"]
        url = self.world.url(Profile.WRITES)
        with httpx.Client(base_url=url, verify=self.world.plane.tls, timeout=70) as client:
            return client.request(options.pop("method", "PATCH"), path or self.path(), **options)

    def usage(self) -> tuple[float, float]:
        """Pods that are used and reserved."""
        used = self.workspace.used("pods")
        return used, self.workspace.charged("pods") - used

    def has_room(self) -> bool:
        return self.scale(2, path=self.path("other", "?dryRun=All")).status_code == 200


@pytest.fixture
def team(patient: World) -> Iterator[Team]:
    with Team(patient) as team:
        yield team


def frees_its_room(team: Team, answer: httpx.Response, code: int) -> None:
    """The gate had allowed it, and it was refused with this code by the API server."""
    assert answer.status_code == code, answer.text
    assert "workspace quota" not in answer.text
    eventually(lambda: team.usage() == (2, 0), team.usage)
    assert team.has_room()


def test_a_caller_whom_rbac_refuses_cannot_hold_a_tenants_quota(team: Team):
    team.tokens["nobody"] = service_account(team.world.plane, team.workspace.namespace, "nobody")
    frees_its_room(team, team.scale(3, token="nobody"), 403)


def test_a_write_that_an_admission_policy_refuses_frees_its_room(team: Team):
    forbid_scaling(team)
    frees_its_room(team, team.scale(3), 422)


def forbid_scaling(team: Team) -> None:
    """A ValidatingAdmissionPolicy: in the place of a webhook, and asked at the same point."""
    name, api = team.workspace.name, team.world.plane.api
    version = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "oldObject.metadata.name != 'web'", "message": "not today"}],
    }
    selector = {"namespaceSelector": {"matchLabels": {"workspace": name}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    root = f"/apis/{version}"
    for kind, one in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        plural = "validatingadmissionpolicies" if one is spec else "validatingadmissionpolicybindings"
        api.call(
            "POST", f"{root}/{plural}", {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": one}
        )
    eventually(lambda: team.scale(1, path=team.path(query="?dryRun=All")).status_code == 422)


def test_a_write_that_succeeds_is_settled_by_a_read_and_not_by_w(team: Team):
    assert team.scale(3).status_code == 200
    eventually(lambda: team.usage() == (4, 0), team.usage)
    assert not team.has_room()
    assert team.scale(1).status_code == 200
    eventually(lambda: team.usage() == (2, 0), team.usage)
    assert team.has_room()


def test_a_write_that_landed_and_was_answered_with_400_is_settled_as_landed(team: Team):
    answer = team.scale(3, path=team.path(query="?includeObject=bogus"), headers=MERGE | TABLE)
    assert answer.status_code == 400
    eventually(lambda: team.usage() == (4, 0), team.usage)
    assert not team.has_room()


def test_the_room_of_a_write_goes_from_reserved_to_used_without_a_gap(team: Team):
    """Whatever is asked meanwhile, it never looks free."""

    def is_settled() -> bool:
        assert not team.has_room()
        return team.usage() == (4, 0)

    for _ in range(5):
        assert team.scale(3).status_code == 200
        eventually(is_settled, team.usage)
        assert team.scale(1).status_code == 200
        eventually(lambda: team.usage() == (2, 0), team.usage)

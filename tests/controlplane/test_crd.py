"""The schema of deploy/crd.yaml, held against a real API server and against our own reader of WorkspaceQuota."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.cli import main
from extauthz.core import resources
from extauthz.core.quota.spec import Mode, QuotaSpecError, parse
from extauthz.core.quota.tree import QuotaTree, QuotaTreeError
from extauthz.testing import scale, workload
from tests.controlplane.plane import Plane
from tests.controlplane.quota_specs import KEYS, MESSAGES, ONLY_READ, ONLY_TAKEN, SPECS
from tests.controlplane.wire import Reply, Wire
from tests.support.recording import Recorded
from tests.waiting import eventually

Tree = Any
CRD = Path(__file__).parents[2] / "deploy" / "crd.yaml"
QUOTAS = "/apis/extauthz.dev/v1alpha1/workspacequotas"

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def server(plane: Plane) -> Iterator[Wire]:
    """An API server that serves WorkspaceQuotas."""
    plane.kubectl("apply", "--server-side", f"--filename={CRD}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    with contextlib.closing(Wire(plane)) as wire:
        yield wire


def quota(spec: Tree, name: str = "acme") -> Tree:
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}


def tried(server: Wire, spec: Tree) -> Reply:
    """The answer to creating such a quota, without creating it."""
    return server.json("POST", f"{QUOTAS}?dryRun=All&fieldValidation=Strict", quota(spec))


def is_taken(server: Wire, spec: Tree) -> bool:
    reply = tried(server, spec)
    assert reply.status in (201, 400, 422), reply
    return reply.status == 201


def is_read(spec: Tree) -> bool:
    """Whether our own reader, and the tree that the quota stands in, take it."""
    try:
        read = parse(quota(spec))
        others = {"sharing": {"turns": "Share"}}
        QuotaTree.build([read, *(parse(quota(others, name)) for name in ("big-corp", "a" * 253) if name != read.name)])
    except (QuotaSpecError, QuotaTreeError):
        return False
    return True


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_the_api_server_takes_what_our_reader_takes_and_nothing_else(server: Wire, spec: Tree):
    reply = tried(server, spec)
    assert is_taken(server, spec) == is_read(spec), reply.tree()


@pytest.mark.parametrize("spec", ONLY_READ.values(), ids=ONLY_READ.keys())
def test_where_the_schema_is_stricter_than_our_reader_it_is_for_a_reason(server: Wire, spec: Tree):
    assert (is_taken(server, spec), is_read(spec)) == (False, True)


@pytest.mark.parametrize("spec", ONLY_TAKEN.values(), ids=ONLY_TAKEN.keys())
def test_what_the_schema_cannot_tell_our_reader_can(server: Wire, spec: Tree):
    assert (is_taken(server, spec), is_read(spec)) == (True, False)


def test_every_family_of_keys_is_tried():
    untried = [family.title for family in resources.TABLE if not any(map(family.pattern.fullmatch, KEYS))]
    assert not untried, "name a key of each in KEYS"


@pytest.mark.parametrize(("spec", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_refusal_says_what_to_write_instead(server: Wire, spec: Tree, message: str):
    assert message in tried(server, spec).tree()["message"]


def test_the_mode_is_clamp_where_none_is_given(server: Wire):
    assert tried(server, {"hard": {"pods": 1}}).tree()["spec"]["mode"] == Mode.CLAMP


def test_the_largest_object_that_the_schema_allows_is_within_the_budget_of_its_rules(server: Wire):
    key, values = f"{'p' * 253}/{'n' * 63}", ["v" * 60 + f"{n:03}" for n in range(64)]
    selector = {
        "matchLabels": {f"{'p' * 253}/{n:063}": "v" * 63 for n in range(32)},
        "matchExpressions": [{"key": key, "operator": "In", "values": values}] * 32,
    }
    hard = {f"requests.{'d' * 200}/{n:063}": "9" * 64 for n in range(64)}
    spec = {"namespaceSelector": selector, "workloadSelector": selector, "hard": hard, "guaranteed": hard}
    assert is_taken(server, spec)


STATUS = {
    "observedGeneration": 1,
    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    "used": {"requests.cpu": "3", "pods": 12},
    "reserved": {"requests.cpu": "500m"},
    "guaranteed": {"requests.cpu": "2"},
    "kept": {"pods": 4},
    "mode": "Enforce",
    "summary": {"cpu": "3/10", "memory": "12Gi/64Gi", "gpu": "4/4", "pods": "12/100", "storage": "1Ti/2Ti"},
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "InForce",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


@pytest.fixture
def shown(server: Wire) -> Iterator[None]:
    spec = {"parent": "big-corp", "hard": {"requests.cpu": "10"}}
    assert server.json("POST", QUOTAS, quota(spec, "shown")).status == 201
    reply = server.json("PATCH", f"{QUOTAS}/shown/status", {"status": STATUS}, "application/merge-patch+json")
    assert reply.status == 200, reply
    yield
    server.json("DELETE", f"{QUOTAS}/shown")


@pytest.mark.usefixtures("shown")
def test_get_shows_used_and_hard_of_the_main_resources(plane: Plane):
    heading, row = plane.kubectl("get", "wsq", "shown").splitlines()
    assert heading.split() == ["NAME", "CPU", "MEMORY", "GPU", "PODS", "MODE", "READY", "HEARTBEAT", "AGE"]
    assert row.split()[:7] == ["shown", "3/10", "12Gi/64Gi", "4/4", "12/100", "Enforce", "True"]
    assert row.split()[7].endswith("d"), "no gate has written it for days, though it says True"


@pytest.mark.usefixtures("shown")
def test_get_wide_shows_storage_parent_and_reason_besides(plane: Plane):
    heading, row = plane.kubectl("get", "wsq", "shown", "-o", "wide").splitlines()
    pairs = dict(zip(heading.split(), row.split(), strict=True))
    assert (pairs["STORAGE"], pairs["PARENT"], pairs["REASON"]) == ("1Ti/2Ti", "big-corp", "InForce")


@pytest.mark.usefixtures("shown")
def test_a_write_of_the_object_leaves_its_status_alone_and_the_reverse(server: Wire):
    reply = server.json("PATCH", f"{QUOTAS}/shown", {"status": {"used": {"pods": 0}}}, "application/merge-patch+json")
    assert reply.tree()["status"]["used"]["pods"] == 12
    path = f"{QUOTAS}/shown/status"
    reply = server.json("PATCH", path, {"spec": {"hard": {"requests.cpu": "99"}}}, "application/merge-patch+json")
    assert reply.tree()["spec"]["hard"] == {"requests.cpu": "10"}


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("spec.hard", "ResourceQuota's keys: requests.cpu"),
        ("spec.namespaceSelector", "Without it, those with the label workspace=<name of the quota>"),
        ("spec.mode", "Enforce refuses"),
        ("status.reserved", "A grant needs used + reserved"),
        ("status.conditions", "Ready: the limits are in force as written"),
    ],
    ids=lambda text: text.split()[0],
)
@pytest.mark.usefixtures("server")
def test_explain_says_what_a_field_is_for(plane: Plane, field: str, says: str):
    assert says in " ".join(plane.kubectl("explain", f"workspacequotas.{field}").split())


FULL = {
    "parent": "corp",
    "namespaceSelector": {"matchLabels": {"workspace": "suggested"}},
    "workloadSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["free"]}]},
    "hard": {"pods": "40", "requests.cpu": "40"},
    "guaranteed": {"pods": "2"},
    "overrides": [
        {"name": "launch", "from": "2030-02-01T00:00:00Z", "until": "2030-03-01T00:00:00Z", "hard": {"pods": "60"}}
    ],
    "sharing": {"weight": 3},
    "mode": "Enforce",
    "onUnknown": {"stale": "Allow"},
    "requesters": {"except": {"serviceAccounts": ["kube-system/cronjob-controller"]}},
}
ROOT = {"hard": {"pods": "90"}, "sharing": {"turns": "Share", "turnSeconds": 60}}


def test_what_replay_suggests_differs_from_the_quota_in_hard_alone(
    plane: Plane, server: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The patch is applied as it is printed."""
    given = {"corp": ROOT, "suggested": FULL}
    for name, spec in given.items():
        plane.api.create(quota(spec, name))
    before = {name: plane.api.get("WorkspaceQuota", name, "") for name in given}
    gate = Recorded(tmp_path, [parse(quota(spec, name)) for name, spec in given.items()], workload("web", 2))
    gate.gate.observe_namespace("team-a", {"workspace": "suggested"})
    gate.ask(scale("web", 7))
    gate.observe(workload("web", 7, version="2"))
    gate.later(600)
    gate.close()

    assert main(["replay", "--record", str(tmp_path), "--suggest", "100"]) == 0
    for line in capsys.readouterr().out.splitlines():
        plane.kubectl(*shlex.split(line)[1:])
    after = {name: plane.api.get("WorkspaceQuota", name, "") for name in given}
    hard = {name: one["spec"].pop("hard") for name, one in after.items()}
    assert hard == {"corp": {"pods": "7"}, "suggested": {"pods": "7", "requests.cpu": "7"}}
    for name, one in before.items():
        plane.api.delete("WorkspaceQuota", name, "")
        one["spec"].pop("hard")
        assert after[name]["spec"] == one["spec"]
        assert after[name]["metadata"].get("labels") == one["metadata"].get("labels")

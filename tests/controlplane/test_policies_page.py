"""The ValidatingAdmissionPolicy of docs/policies.md, as a real API server takes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.controlplane.api import RefusedError, Tree
from tests.controlplane.fixtures import deployment
from tests.controlplane.plane import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
ROOT = "/apis/admissionregistration.k8s.io/v1"
NAMESPACE = "doubled"


def test_the_policy_of_the_page_lets_a_workload_double_and_no_more(plane: Plane):
    (text,) = re.findall(
        r"^```yaml\n(apiVersion: admissionregistration.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    policy = yaml.safe_load(text)
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plane.api.create(deployment("web", 5) | {"metadata": {"name": "web", "namespace": NAMESPACE}})
    plane.api.call("POST", f"{ROOT}/validatingadmissionpolicies", policy)
    plane.api.call("POST", f"{ROOT}/validatingadmissionpolicybindings", binding(policy["metadata"]["name"]))

    refused: list[str] = []

    def takes(replicas: int) -> bool:
        try:
            plane.api.patch("Deployment", "web", NAMESPACE, {"spec": {"replicas": replicas}}, sub="scale")
        except RefusedError as error:
            refused.append(str(error))
            return False
        return True

    eventually(lambda: takes(5) and not takes(11))
    told = [(count, takes(count)) for count in (10, 21, 20, 3, 0, 5, 4, 8)]
    assert [count for count, is_taken in told if not is_taken] == [21, 5], "5 comes after 0"
    assert all(policy["spec"]["validations"][0]["message"] in one for one in refused)


def binding(policy: str) -> Tree:
    """For one namespace: the API server is shared."""
    resources = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"], "matchResources": resources},
    }

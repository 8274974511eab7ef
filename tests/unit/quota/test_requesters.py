"""Whom a quota binds: the field of a WorkspaceQuota, and who asks."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Requester
from extauthz.core.quota.selectors import Requesters, by_name
from extauthz.core.quota.spec import API_VERSION, KIND, QuotaSpecError, parse, salvage

HPA = Requester(
    "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
    ("kube-controller-manager-1",),
)
ADMIN = Requester("kubernetes-admin", ("system:masters", "system:authenticated"))


def quota(requesters: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "acme"},
        "spec": {"hard": {"pods": "1"}, "requesters": requesters},
    }


def read(requesters: Any) -> Requesters:
    found = parse(quota(requesters)).requesters
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("requesters", "hpa", "admin"),
    [
        ({"include": {"users": [HPA.user]}}, True, False),
        ({"include": {"users": ["system:serviceaccount:*"]}}, True, False),
        ({"include": {"users": ["*"]}}, True, True),
        ({"include": {"users": [f"{HPA.user}*"]}}, True, False),
        ({"include": {"users": ["system:serviceaccount:kube-system:horizontal"]}}, False, False),
        ({"include": {"groups": ["system:serviceaccounts"]}}, True, False),
        ({"include": {"serviceAccounts": ["kube-system/horizontal-pod-autoscaler"]}}, True, False),
        ({"include": {"serviceAccounts": ["kube-system/*"]}}, True, False),
        ({"include": {"serviceAccounts": ["kube/*"]}}, False, False),
        ({"include": {"podNames": ["kube-controller-manager-*"]}}, True, False),
        ({"include": {"podNames": ["kube-system/kube-controller-manager-*"]}}, True, False),
        ({"include": {"podNames": ["kube-system/*"]}}, True, False),
        ({"include": {"podNames": ["shop/kube-controller-manager-1"]}}, False, False),
        ({"include": {"podNames": ["kube-system*"]}}, False, False),
        ({"include": {"users": ["nobody"], "groups": ["system:masters"]}}, False, True),
        ({"except": {"groups": ["system:masters"]}}, True, False),
        ({"except": {"users": [ADMIN.user]}}, True, False),
        ({"include": {"groups": ["system:authenticated"]}, "except": {"podNames": ["*"]}}, False, True),
        (None, True, True),
    ],
)
def test_whom_a_quota_binds(requesters: Any, hpa: bool, admin: bool):
    found = parse(quota(requesters)).requesters
    binds = (lambda who: found.bind(who)) if found is not None else (lambda who: True)
    assert (binds(HPA), binds(ADMIN)) == (hpa, admin)


@pytest.mark.parametrize(
    ("requesters", "complaint"),
    [
        ([], "spec.requesters: [] is not a mapping"),
        ({}, "spec.requesters: it names nobody"),
        ({"exept": {}}, "did you mean except?"),
        ({"include": {}}, "spec.requesters.include: it names nobody"),
        ({"include": {"user": ["a"]}}, "did you mean users?"),
        ({"include": {"users": []}}, "spec.requesters.include.users: it names nobody"),
        ({"include": {"users": "a"}}, "spec.requesters.include.users: 'a' is not a list"),
        ({"include": {"users": [1]}}, "spec.requesters.include.users[0]: 1 is not a string"),
        ({"include": {"users": [""]}}, "'' is no name"),
        ({"except": {"groups": ["a*b"]}}, "spec.requesters.except.groups[0]: 'a*b' is no name"),
        ({"except": {"podNames": ["**"]}}, "'**' is no name"),
        ({"except": {"serviceAccounts": ["hpa"]}}, "write NAMESPACE/NAME, or NAMESPACE/* for all"),
        ({"except": {"serviceAccounts": ["*/hpa"]}}, "'*/hpa' is no service account"),
        ({"except": {"serviceAccounts": ["a/b/c"]}}, "'a/b/c' is no service account"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_a_cure(requesters: Any, complaint: str):
    with pytest.raises(QuotaSpecError) as error:
        parse(quota(requesters))
    assert complaint in str(error.value)


def test_a_quota_that_cannot_be_read_binds_everybody():
    assert salvage(quota({"except": {"users": ["*"], "groups": 3}})).requesters is None


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        (HPA.user, HPA.groups),
        ("kubernetes-admin", ("system:authenticated",)),
        ("system:serviceaccount:", ("system:authenticated",)),
        ("system:serviceaccount:ns:", ("system:authenticated",)),
        ("a:b", ("system:authenticated",)),
    ],
)
def test_the_groups_of_a_service_account_follow_from_its_name(user: str, groups: tuple[str, ...]):
    assert by_name(user) == Requester(user, groups)

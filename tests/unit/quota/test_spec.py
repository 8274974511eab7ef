"""WorkspaceQuota objects: what a good one is read as, and every way in which one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Requester, Unknown
from extauthz.core.quota.problems import Fault, Problem, compact, shown, standing
from extauthz.core.quota.selectors import LabelSelector, Requesters, by_name
from extauthz.core.quota.spec import (
    API_VERSION,
    KIND,
    Mode,
    QuotaSpecError,
    WorkspaceQuota,
    dumped,
    parse,
    salvage,
    written,
)

CPU = 10**9


def tree(**changes):
    base = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "acme"}}
    return base | changes


def refused(obj) -> dict[str, str]:
    with pytest.raises(QuotaSpecError) as caught:
        parse(obj)
    assert str(caught.value) == "; ".join(map(str, caught.value.problems))
    return dict(str(problem).split(": ", 1) for problem in caught.value.problems)


def test_the_example_of_the_design():
    obj = tree(
        metadata={"name": "acme", "generation": 7, "uid": "u", "managedFields": []},
        spec={
            "parent": "big-corp",
            "namespaceSelector": {"matchLabels": {"workspace": "acme"}},
            "workloadSelector": {},
            "hard": {"requests.cpu": "10", "requests.memory": "64Gi", "requests.nvidia.com/gpu": "4", "pods": 100},
            "mode": "Clamp",
        },
        status={"anything": "goes"},
    )
    assert parse(obj) == WorkspaceQuota(
        name="acme",
        parent="big-corp",
        namespace_selector=LabelSelector((("workspace", "acme"),)),
        workload_selector=None,
        hard={
            "requests.cpu": 10 * CPU,
            "requests.memory": 64 * 2**30 * 10**9,
            "requests.nvidia.com/gpu": 4 * CPU,
            "pods": 100 * CPU,
        },
        mode=Mode.CLAMP,
        generation=7,
    )


@pytest.mark.parametrize("spec", [None, {}, {"parent": None, "hard": None, "mode": None, "namespaceSelector": None}])
def test_what_is_left_out_covers_the_namespaces_of_its_name_limits_nothing_and_clamps(spec):
    quota = parse(tree(spec=spec))
    assert quota == WorkspaceQuota(name="acme", namespace_selector=LabelSelector((("workspace", "acme"),)))
    assert (quota.by_its_name, quota.hard, quota.mode) == (True, {}, Mode.CLAMP)
    labels = ({"workspace": "acme"}, {}), ({"workspace": "zoo"}, {}), ({}, {})
    assert [quota.matches(*one) for one in labels] == [True, False, False]


@pytest.mark.parametrize("of", [{}, {"matchLabels": {"team": "acme"}}], ids=["all", "others"])
def test_one_with_a_namespace_selector_does_not_cover_by_its_name(of):
    quota = parse(tree(spec={"namespaceSelector": of}))
    assert not quota.by_its_name
    assert quota.matches({"workspace": "acme"}, {}) == (of == {})


def test_aliases_of_keys_are_read_as_resource_quota_reads_them():
    assert parse(tree(spec={"hard": {"cpu": 1.5, "memory": "1Ki"}})).hard == {
        "requests.cpu": 1_500_000_000,
        "requests.memory": 1024 * 10**9,
    }


@pytest.mark.parametrize(
    ("selectors", "namespace", "workload", "covered"),
    [
        pytest.param({"namespaceSelector": {}}, {"a": "b"}, {}, True, id="empty-selects-every-namespace"),
        pytest.param({"workloadSelector": {}}, {}, {}, False, id="none-selects-no-namespace"),
        pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {"a": "c"}, {}, False, id="other-value"),
        pytest.param(
            {"namespaceSelector": {}, "workloadSelector": {"matchLabels": {"u": "1"}}},
            {"u": "1"},
            {},
            False,
            id="workload-label-is-not-looked-for-on-the-namespace",
        ),
        pytest.param(
            {"namespaceSelector": {}, "workloadSelector": {"matchLabels": {"u": "1"}}}, {}, {"u": "1"}, True, id="both"
        ),
    ],
)
def test_whom_a_quota_covers(selectors, namespace, workload, covered):
    assert parse(tree(spec=selectors)).matches(namespace, workload) is covered


@pytest.mark.parametrize(
    ("obj", "path", "says"),
    [
        (tree(apiVersion="v1"), "apiVersion", "'v1' is not a WorkspaceQuota's apiVersion; write apiVersion: extauthz"),
        (tree(kind="ResourceQuota"), "kind", "write kind: WorkspaceQuota"),
        (tree(sepc={}), "sepc", "did you mean spec?"),
        (tree(metadata={"name": "a", "lables": {}}), "metadata.lables", "did you mean labels?"),
        (tree(metadata={"name": "a", "namespace": "b"}), "metadata.namespace", "is cluster-scoped"),
        (tree(metadata={"name": "a", "generation": "1"}), "metadata.generation", "'1' is not an integer"),
        (tree(metadata={"name": "a", "generation": True}), "metadata.generation", "true is not an integer"),
        (tree(metadata={}), "metadata.name", "null is not a string; give it a value"),
        (tree(metadata={"name": 12}), "metadata.name", "12 is not a string; put it in quotes"),
        (tree(metadata={"name": "Acme"}), "metadata.name", "'Acme' is not an object name; use lower-case"),
        (tree(metadata={"name": ""}), "metadata.name", "'' is not an object name"),
        (tree(spec=[]), "spec", "[] is not a mapping"),
        (tree(spec={"hards": {}}), "spec.hards", "did you mean hard?"),
        (tree(spec={"parent": "A"}), "spec.parent", "'A' is not an object name"),
        (tree(spec={"mode": "enforce"}), "spec.mode", "'enforce' is not a mode; use one of Enforce, Clamp, Audit"),
        (tree(spec={"mode": ["Audit"]}), "spec.mode", "is not a mode"),
        (tree(spec={"hard": {"cpu": "10x"}}), "spec.hard.cpu", "'10x' is not a quantity"),
        (tree(spec={"hard": {"cpu": None}}), "spec.hard.cpu", "null is not a quantity; write for example"),
        (tree(spec={"hard": {"cpu": True}}), "spec.hard.cpu", "true is not a quantity"),
        (tree(spec={"hard": {"cpu": -1}}), "spec.hard.cpu", "-1 is negative; write 0 or more"),
        (tree(spec={"hard": {"pods": "0.5"}}), "spec.hard.pods", "'0.5' is not a whole number; pods counts objects"),
        (
            tree(spec={"hard": {"count/deployments.apps": "1m"}}),
            "spec.hard[count/deployments.apps]",
            "is not a whole number",
        ),
        (
            tree(spec={"hard": {"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1500m"}}),
            "spec.hard[gold.storageclass.storage.k8s.io/persistentvolumeclaims]",
            "is not a whole number",
        ),
        (tree(spec={"hard": {"nvidia.com/gpu": 1}}), "spec.hard[nvidia.com/gpu]", 'use "requests.nvidia.com/gpu"'),
        (tree(spec={"hard": {"secrets": 1}}), "spec.hard.secrets", "no write to a workload raises it"),
        (
            tree(spec={"hard": {"cpu": 1, "requests.cpu": 2}}),
            "spec.hard[requests.cpu]",
            '"requests.cpu" and "cpu" are the same resource; keep one of them',
        ),
        (
            tree(spec={"workloadSelector": {"matchLabels": {"a": 1}}}),
            "spec.workloadSelector.matchLabels.a",
            "put it in quotes",
        ),
    ],
)
def test_a_bad_field_is_refused_with_its_path_and_cure(obj, path, says):
    found = refused(obj)
    assert list(found) == [path]
    assert says in found[path]


def test_every_problem_of_an_object_is_listed():
    obj = {"kind": "WorkspaceQuota", "spec": {"hard": {"cpu": "x", "secrets": 1}, "mode": "No"}}
    assert list(refused(obj)) == ["apiVersion", "metadata.name", "spec.hard.cpu", "spec.hard.secrets", "spec.mode"]


@pytest.mark.parametrize("obj", [None, [], "text", 3])
def test_what_is_no_mapping_at_all_is_refused(obj):
    assert "metadata.name" in refused(obj)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (False, "false"), (0, "0"), ("a", "'a'"), ("x" * 99, "'" + "x" * 56 + "...")]
)
def test_values_are_shown_as_yaml_spells_them_and_cut(value, text):
    assert shown(value) == text


SELECTS = {"matchLabels": {"workspace": "acme"}}


@pytest.mark.parametrize(
    ("spec", "selects", "parent"),
    [
        pytest.param({"hard": {"services": "1"}}, True, "corp", id="limit"),
        pytest.param({"mode": "Off"}, True, "corp", id="mode"),
        pytest.param({"parent": "NO"}, True, None, id="parent"),
        pytest.param({"namespaceSelector": {"matchLabels": {"a b": "c"}}}, False, "corp", id="namespace-selector"),
        pytest.param({"workloadSelector": "all"}, False, "corp", id="workload-selector"),
        pytest.param({"namespaceSelektor": {}}, True, "corp", id="unknown-field"),
    ],
)
def test_of_a_bad_one_it_is_told_whom_it_covers_and_that_its_limits_are_not_known(spec, selects, parent):
    obj = tree(spec={"parent": "corp", "namespaceSelector": SELECTS, "hard": {"pods": "1"}} | spec)
    refused(obj)
    wanted = LabelSelector((("workspace", "acme"),)) if selects else None
    assert salvage(obj) == WorkspaceQuota("acme", parent, wanted, illegible=True)


@pytest.mark.parametrize(
    "obj", [None, "text", {"metadata": {"name": "acme"}, "spec": "all"}], ids=["null", "text", "spec"]
)
def test_what_is_hardly_an_object_covers_nobody(obj):
    assert not salvage(obj).by_its_name
    assert salvage(obj).namespace_selector is None


def test_a_bad_one_without_selectors_covers_the_namespaces_of_its_name():
    assert salvage(tree(spec={"hard": {"pods": "many"}})).matches({"workspace": "acme"}, {})


def test_what_is_to_be_done_where_something_is_not_known_is_read_field_by_field():
    quota = parse(tree(spec={"onUnknown": {"stale": "Allow", "unreadable": "Deny", "unsynced": None}}))
    assert quota.on_unknown == {Unknown.STALE: "allow", Unknown.UNREADABLE: "deny"}


def test_of_answers_to_not_knowing_the_good_ones_are_salvaged():
    bad = tree(spec={"onUnknown": {"stale": "Allow", "unreadable": "no"}, "hard": {"pods": "x"}})
    assert refused(bad)["spec.onUnknown.unreadable"] == "'no' is neither Deny nor Allow; write Deny or Allow"
    assert salvage(bad).on_unknown == {Unknown.STALE: "allow"}


OBJECT = {
    "metadata": {"name": "acme", "uid": "u1", "generation": 3, "resourceVersion": "41"},
    "status": {"used": {"pods": "3"}, "observedGeneration": 2},
}


def test_a_standing_has_what_a_status_needs_of_the_object():
    problem = Problem(("spec", "parent"), 'there is no WorkspaceQuota "big"', "name one that exists, or remove parent")
    seen = standing(OBJECT, 2, Fault.PARENT_MISSING, [problem])
    assert (seen.name, seen.uid, seen.generation, seen.version, seen.in_force) == ("acme", "u1", 3, "41", 2)
    assert seen.fault == "ParentMissing"
    assert seen.why == 'spec.parent: there is no WorkspaceQuota "big"; name one that exists, or remove parent'


def test_equal_statuses_are_equal_bytes_in_whatever_order_they_came():
    assert standing(OBJECT, 3).status == compact({"observedGeneration": 2, "used": {"pods": "3"}})


def test_an_object_just_created_has_an_empty_status():
    assert standing({"metadata": {"name": "acme"}}, None).status == b"{}"


# A quota as an object again.


SPEC = {
    "parent": "big",
    "namespaceSelector": {"matchLabels": {"a": "1"}},
    "workloadSelector": {
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["x", "y"]},
            {"key": "old", "operator": "DoesNotExist"},
        ]
    },
    "hard": {"requests.cpu": "1500m", "pods": "4"},
    "guaranteed": {"pods": "2"},
    "overrides": [
        {
            "name": "sale",
            "from": "2027-02-01T12:00:00.000Z",
            "until": "2027-02-02T12:00:00.000Z",
            "hard": {"pods": "9"},
        }
    ],
    "mode": "Clamp",
}


def test_what_is_written_reads_as_the_same_quota():
    quota = parse(written("acme", SPEC))
    assert dumped(quota) == SPEC
    assert parse(written("acme", dumped(quota))) == quota


def test_what_says_nothing_is_left_out():
    of_its_name = {"matchLabels": {"workspace": "acme"}}
    wanted = {"hard": {"pods": "4"}, "mode": "Clamp", "namespaceSelector": of_its_name}
    assert dumped(parse(written("acme", {"hard": {"pods": "4"}}))) == wanted


# Whom a quota binds: the field of a WorkspaceQuota, and who asks.


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

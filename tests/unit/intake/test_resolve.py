"""What a write leaves behind is what the API server would make of it, or it is unreadable; nothing is guessed."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.effects.resolve import resolve, resolve_by_document
from extauthz.core.model import (
    Apply,
    JsonPatch,
    MergePatch,
    Observed,
    Operation,
    Outcome,
    OwnerRef,
    Put,
    StrategicMergePatch,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.workloads import intern, observe, prune
from extauthz.core.wire.gojson import Number

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {"name": "app", "image": "app:1", "env": [], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "log", "image": "log:1"},
        ],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    },
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "labels": {"app": "web"}},
    "spec": {"replicas": 3, "template": TEMPLATE, "minReadySeconds": 9},
}
REF, BASE = observe(WEB)
CUSTOM = WorkloadRef("acme.dev", "gadgets", "shop", "one")
PATCHES = [MergePatch, StrategicMergePatch]


def write(change, *, scale=False, ref=REF, operation=Operation.PATCH):
    return Write(ref, operation, scale, False, change)


def left(change, base=BASE, **more):
    return resolve(write(change, **more), base)


def code(change, base=BASE, **more):
    result = left(change, base, **more)
    assert isinstance(result, Unreadable)
    assert result.ref == more.get("ref", REF)
    assert len(result.detail) < 300
    return result.code


def json_patch(*operations):
    return JsonPatch(tuple(operations))


def op(name, path, value=None, **more):
    return {"op": name, "path": path, "value": value} | more


def template(change):
    """The one template a change leaves behind, as a tree."""
    (result,) = left(change).templates
    return json.loads(result.text)["template"]["spec"]


@pytest.mark.parametrize("base", [BASE, None], ids=["seen", "unseen"])
@pytest.mark.parametrize("scale", [True, False], ids=["scale", "object"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(json_patch(op("add", "/spec/replicas", 7)), id="json-patch-add"),
        pytest.param(json_patch(op("replace", "/spec/replicas", 7)), id="json-patch-replace"),
        pytest.param(json_patch(op("replace", "x/spec/replicas", 7)), id="json-patch-odd-path"),
        pytest.param(json_patch(op("test", "/spec/replicas", 99), op("add", "/spec/replicas", 7)), id="failing-test"),
        pytest.param(MergePatch({"spec": {"replicas": 7}}), id="merge-patch"),
        pytest.param(
            MergePatch({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 7}}), id="merge-and-version"
        ),
        pytest.param(StrategicMergePatch({"spec": {"replicas": 7}}), id="strategic"),
        pytest.param(
            StrategicMergePatch({"spec": {"replicas": 7, "$retainKeys": ["replicas"]}}), id="strategic-retain"
        ),
    ],
)
def test_a_scale_write_says_its_count_whether_the_object_was_seen_or_not(change, scale, base):
    if not scale and "$retainKeys" in str(change):
        assert code(change, base) in ("malformed-object", "object-not-seen")
    else:
        assert left(change, base, scale=scale) == Outcome(7)


@pytest.mark.parametrize("base", [BASE, None, Observed(2, None)], ids=["seen", "unseen", "no-template"])
def test_a_scale_put_says_its_count_for_a_resource_of_any_group(base):
    document = {"kind": "Scale", "metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 7}}
    assert left(Put(document), base, scale=True, ref=CUSTOM) == Outcome(7)


@pytest.mark.parametrize(
    ("change", "object_count", "scale_count"),
    [
        pytest.param(MergePatch({"spec": {"replicas": None}}), 1, 0, id="merge-null"),
        pytest.param(StrategicMergePatch({"spec": {"replicas": None}}), 1, 0, id="strategic-null"),
        pytest.param(json_patch(op("remove", "/spec/replicas")), 1, 0, id="json-patch-remove"),
        pytest.param(json_patch(op("add", "/spec/replicas")), 1, 0, id="json-patch-null"),
        pytest.param(json_patch({"op": "add", "path": "/spec/replicas"}), 1, 0, id="json-patch-no-value"),
        pytest.param(Put(WEB | {"spec": {"template": TEMPLATE}}), 1, 0, id="put-absent"),
        pytest.param(Put(WEB | {"spec": {"template": TEMPLATE, "replicas": None}}), 1, 0, id="put-null"),
    ],
)
def test_no_count_is_one_for_an_object_and_zero_for_a_scale(change, object_count, scale_count):
    assert left(change).replicas == object_count
    assert left(change, scale=True).replicas == scale_count


@pytest.mark.parametrize(
    "change",
    [Put({}), Put({"spec": None}), MergePatch({"spec": None}), json_patch(op("remove", "/spec"))],
    ids=["put", "put-null", "merge-null", "remove"],
)
def test_a_scale_without_a_spec_is_zero(change):
    assert left(change, scale=True) == Outcome(0)


COUNTS = [
    (-1, "replicas-negative"),
    (2**31, "replicas-too-large"),
    (2**70, "replicas-too-large"),
    (Number("1.5"), "replicas-not-an-integer"),
    (Number("3.0"), "replicas-not-an-integer"),
    (Number("1e1"), "replicas-not-an-integer"),
    ("3", "replicas-not-an-integer"),
    (True, "replicas-not-an-integer"),
    ([3], "replicas-not-an-integer"),
]


@pytest.mark.parametrize("scale", [True, False], ids=["scale", "object"])
@pytest.mark.parametrize(("count", "expected"), COUNTS, ids=[str(count) for count, _ in COUNTS])
def test_what_a_json_decoder_does_not_put_into_an_int32_is_unreadable(count, expected, scale):
    spec = {"replicas": count, "template": TEMPLATE}
    for change in (
        json_patch(op("add", "/spec/replicas", count)),
        MergePatch({"spec": spec}),
        Put(WEB | {"spec": spec}),
    ):
        assert code(change, scale=scale) == expected


@pytest.mark.parametrize("scale", [True, False], ids=["scale", "object"])
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (Number("3.0"), 3),
        (Number("1e1"), 10),
        (2**32 + 5, 5),
        (-(2**32), 0),
        (2**31, None),
        (Number("1.5"), None),
        ("3", None),
    ],
    ids=str,
)
def test_a_strategic_merge_patch_takes_whole_floats_and_wraps_around(count, expected, scale):
    result = left(StrategicMergePatch({"spec": {"replicas": count}}), scale=scale)
    assert (result == Outcome(expected)) if expected is not None else isinstance(result, Unreadable)


def test_a_count_beyond_64_bits_in_a_strategic_merge_patch_is_not_guessed():
    assert code(StrategicMergePatch({"spec": {"replicas": 2**63}})) == "replicas-too-large"


def test_a_created_object_says_everything():
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-9", "controller": True}
    document = copy.deepcopy(WEB)
    document["metadata"]["ownerReferences"] = [owner]
    for base in (None, BASE):
        assert left(Put(document), base, operation=Operation.CREATE) == Outcome(
            3, (BASE.template,), "app=web", OwnerRef("apps", "Deployment", "d", "u-9")
        )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            json_patch(op("add", "/spec/template/spec/containers/0/resources/requests/cpu", "2")), id="json-patch"
        ),
        pytest.param(
            StrategicMergePatch(
                {
                    "spec": {
                        "template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": 2}}}]}}
                    }
                }
            ),
            id="strategic",
        ),
        pytest.param(
            MergePatch(
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "containers": [
                                    {"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
                                    {"name": "log"},
                                ]
                            }
                        }
                    }
                }
            ),
            id="merge",
        ),
    ],
)
def test_a_grown_request_gives_the_new_template_and_touches_nothing_else(change):
    tree = prune(WEB["spec"])
    tree["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert left(change) == Outcome(None, (intern(tree),))


def test_replicas_and_template_may_grow_at_once():
    result = left(
        json_patch(
            op("add", "/spec/replicas", 9),
            op("copy", "/spec/template/spec/containers/-", **{"from": "/spec/template/spec/containers/0"}),
            op("replace", "/spec/template/spec/containers/2/name", "app2"),
        )
    )
    assert result.replicas == 9
    pod = json.loads(result.templates[0].text)["template"]["spec"]
    assert [item["name"] for item in pod["containers"]] == ["app", "log", "app2"]
    assert pod["containers"][2]["resources"] == pod["containers"][0]["resources"]


def test_a_pod_spec_that_is_replaced_is_known_in_whole():
    change = StrategicMergePatch({"spec": {"template": {"spec": {"$patch": "replace", "containers": [{"name": "a"}]}}}})
    assert template(change) == {"containers": [{"name": "a"}]}


def test_a_container_without_resources_gets_its_first():
    path = "/spec/template/spec/containers/1/resources/requests"
    assert template(json_patch(op("add", path, {"cpu": 1})))["containers"][1]["resources"] == {"requests": {"cpu": "1"}}


def test_an_ephemeral_volume_s_claim_can_be_patched():
    claim = {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}}
    pod = {"containers": [], "volumes": [{"name": "work", "ephemeral": {"volumeClaimTemplate": claim}}]}
    base = Observed(1, intern(prune({"template": {"spec": pod}, "volumeClaimTemplates": [claim]})))
    path = "/spec/template/spec/volumes/0/ephemeral/volumeClaimTemplate/spec"
    change = json_patch(op("add", f"{path}/resources/requests/storage", "2Gi"), op("add", f"{path}/volumeName", "x"))
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "fast"}}
    pod["volumes"][0]["ephemeral"]["volumeClaimTemplate"] = grown
    expected = intern(prune({"template": {"spec": pod}, "volumeClaimTemplates": [claim]}))
    assert left(change, base) == Outcome(None, (expected,))


def test_a_volume_that_becomes_ephemeral_is_seen():
    claim = {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}
    volume = {"name": "tmp", "emptyDir": None, "ephemeral": claim}
    assert template(StrategicMergePatch({"spec": {"template": {"spec": {"volumes": [volume]}}}}))["volumes"] == [
        {"name": "tmp", "ephemeral": claim}
    ]


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        (MergePatch({"metadata": {"labels": {"tier": "a"}}}), "app=web,tier=a"),
        (MergePatch({"metadata": {"labels": {"app": None}}}), ""),
        (MergePatch({"metadata": {"labels": None}}), ""),
        (StrategicMergePatch({"metadata": {"labels": {"$patch": "replace", "b": "c"}}}), "b=c"),
        (json_patch(op("add", "/metadata/labels/tier", "a")), "app=web,tier=a"),
        (json_patch(op("remove", "/metadata/labels")), ""),
    ],
    ids=repr,
)
def test_labels_are_told_when_they_are_touched(change, labels):
    assert left(change) == Outcome(None, (), labels)


def test_a_patch_that_touches_the_owners_may_free_the_object():
    assert left(json_patch(op("replace", "/metadata", {"labels": {"b": "c"}}))) == Outcome(None, (), "b=c", frees=True)
    assert left(MergePatch({"metadata": {"ownerReferences": []}})) == Outcome(None, frees=True)


@pytest.mark.parametrize("of", PATCHES)
def test_labels_of_a_scale_are_nobody_s(of):
    assert left(of({"metadata": {"labels": {"tier": "a"}}}), scale=True) == Outcome(None)


def test_an_empty_label_value_of_null_is_empty():
    assert left(Put(WEB | {"metadata": {"labels": {"a": None}}})).labels == "a="


def test_a_replication_controller_that_loses_its_labels_takes_those_of_its_pods_which_were_not_kept():
    ref = WorkloadRef("", "replicationcontrollers", "shop", "web")
    assert code(MergePatch({"metadata": {"labels": None}}), ref=ref) == "patch-from-unseen-field"
    assert left(MergePatch({"metadata": {"labels": None}}), ref=ref, scale=True) == Outcome(None)


@pytest.mark.parametrize(
    "change",
    [
        MergePatch({"status": {"replicas": 9}}),
        MergePatch({"spec": {}}),
        MergePatch({"spec": {"template": {}, "paused": True}}),
        StrategicMergePatch({"metadata": {"annotations": {"a": "b"}, "$setElementOrder/ownerReferences": []}}),
        json_patch(op("add", "/spec/paused", True), op("add", "/metadata/annotations/a", "b")),
        json_patch(op("test", "/spec/replicas", 9)),
        json_patch(op("add", "/spec/template/metadata/annotations/restartedAt", "now")),
    ],
    ids=repr,
)
def test_a_write_of_what_does_not_count_leaves_what_was_there(change):
    result = left(change)
    assert result.replicas is None
    assert result.templates in ((), (BASE.template,))
    assert result.labels in (None, "app=web")


@pytest.mark.parametrize(
    "path", ["/spec/minReadySeconds", "/metadata/generation", "/status/replicas", "/metadata/annotations/n"]
)
@pytest.mark.parametrize("name", ["copy", "move"])
def test_a_count_from_a_field_that_was_not_kept_is_unreadable(name, path):
    assert code(json_patch(op(name, "/spec/replicas", **{"from": path}))) == "patch-from-unseen-field"


@pytest.mark.parametrize("source", ["/spec/replicas", "/metadata/resourceVersion", "/metadata/uid"])
@pytest.mark.parametrize(
    "target", ["/spec/template/spec/containers/0/resources/requests/cpu", "/metadata/labels/app", "/spec/replicas"]
)
@pytest.mark.parametrize("base", [BASE, None], ids=["seen", "never-seen"])
@pytest.mark.parametrize("name", ["copy", "move"])
def test_anything_that_counts_from_a_field_that_others_change_meanwhile_is_unreadable(name, base, target, source):
    """A count and the version change without a change of the object that a patch waits for."""
    seen = (
        op("add", "/metadata/labels", {}),
        op("add", "/spec/template", TEMPLATE),
        op("add", "/spec/volumeClaimTemplates", []),
    )
    assert code(json_patch(*seen, op(name, target, **{"from": source})), base) == "patch-from-unseen-field"


def test_so_is_a_count_that_is_copied_with_all_around_it():
    whole = json_patch(op("copy", "/x", **{"from": "/spec"}), op("move", "/spec", **{"from": "/x"}))
    assert code(whole) == "patch-from-unseen-field"


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    "spec", [{"$retainKeys": ["replicas", "selector", "template"]}, {"$setElementOrder/x": []}], ids=repr
)
def test_a_count_that_stays_as_it_is_is_no_count_of_this_write(spec, scale):
    assert left(StrategicMergePatch({"spec": spec}), scale=scale).replicas is None


def test_a_scale_that_was_never_seen_keeps_its_count_when_nothing_says_another():
    assert left(StrategicMergePatch({"spec": {"$setElementOrder/x": []}}), None, scale=True) == Outcome(None)


def test_a_scale_s_count_from_its_status_is_unreadable():
    change = json_patch(op("copy", "/spec/replicas", **{"from": "/status/replicas"}))
    assert code(change, scale=True) == "patch-from-unseen-field"


@pytest.mark.parametrize(
    "target",
    [
        "/metadata/labels",
        "/metadata/labels/a",
        "/spec",
        "/spec/template",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0",
        "/spec/template/spec/containers/0/resources/requests",
        "/spec/template/spec/containers/0/resources/requests/cpu",
        "/spec/template/spec/overhead",
        "/spec/template/spec/runtimeClassName",
        "/spec/template/spec/initContainers/0/restartPolicy",
        "/spec/volumeClaimTemplates",
    ],
)
def test_anything_that_counts_from_a_field_that_was_not_kept_is_unreadable(target):
    assert code(json_patch(op("copy", target, **{"from": "/metadata/annotations"}))) == "patch-from-unseen-field"


def test_a_part_of_the_object_that_is_copied_to_where_another_belongs_is_unreadable():
    change = json_patch(op("copy", "/spec/template/spec/overhead", **{"from": "/spec/template/spec/containers/0"}))
    assert code(change) == "patch-from-unseen-field"


@pytest.mark.parametrize(
    "change",
    [
        MergePatch({"spec": {"template": {"spec": {"overhead": {"cpu": "1"}}}}}),
        StrategicMergePatch({"spec": {"template": {"spec": {"overhead": {"cpu": "1"}}}}}),
        StrategicMergePatch({"spec": {"template": None, "volumeClaimTemplates": []}}),
        MergePatch({"spec": {"volumeClaimTemplates": []}}),
        MergePatch({"metadata": {"labels": {"a": "b"}}}),
        StrategicMergePatch({"metadata": {"$retainKeys": ["labels"]}}),
        json_patch(op("add", "/spec/template/spec/overhead", {})),
    ],
    ids=repr,
)
def test_a_patch_inside_what_was_never_seen_is_unreadable(change):
    assert code(change, None) in ("object-not-seen", "malformed-object")


def test_a_whole_template_in_a_json_patch_is_known_though_the_object_was_never_seen():
    operations = op("add", "/spec/template", TEMPLATE), op("remove", "/spec/volumeClaimTemplates")
    assert left(json_patch(*operations), None) == Outcome(None, (BASE.template,))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(Put([]), "malformed-object", id="put-a-list"),
        pytest.param(Put({"spec": {}}), "malformed-object", id="put-without-a-template"),
        pytest.param(Put({"spec": {"template": {"spec": {"containers": {}}}}}), "malformed-object", id="containers"),
        pytest.param(MergePatch([]), "patch-malformed", id="merge-a-list"),
        pytest.param(StrategicMergePatch(None), "patch-malformed", id="strategic-null"),
        pytest.param(StrategicMergePatch({"$patch": "delete"}), "malformed-object", id="strategic-deletes-all"),
        pytest.param(Apply("x"), "malformed-object", id="apply-text"),
        pytest.param(MergePatch({"spec": "x"}), "malformed-object", id="spec-a-text"),
        pytest.param(MergePatch({"metadata": [], "spec": {"replicas": 2}}), "malformed-object", id="metadata-a-list"),
        pytest.param(MergePatch({"spec": {"template": None}}), "malformed-object", id="no-template-left"),
        pytest.param(json_patch(op("add", "/spec/nowhere/x/y", 1)), None, id="below-what-was-not-kept"),
        pytest.param(json_patch(op("remove", "/spec/volumeClaimTemplates")), "patch-does-not-apply", id="known-absent"),
        pytest.param(json_patch({"op": "fold", "path": "/a"}), "patch-malformed", id="no-such-operation"),
    ],
)
def test_what_the_server_refuses_is_unreadable_with_its_reason(change, expected):
    assert (code(change) if expected else left(change)) == (expected or Outcome(None))


def test_an_apply_configuration_is_read_without_its_nulls():
    assert left(Apply({"spec": {"replicas": None}}), scale=True) == Outcome(None)
    assert left(Apply({"spec": {"replicas": 5}}), scale=True) == Outcome(5)


def test_neither_the_write_nor_the_base_is_changed():
    change = StrategicMergePatch({"spec": {"template": {"spec": {"containers": [{"name": "new", "resources": {}}]}}}})
    before, base = copy.deepcopy(change), copy.deepcopy(BASE)
    assert left(change) == left(change)
    assert (change, BASE) == (before, base)


counts = (
    st.integers(-2, 2**31) | st.none() | st.floats() | st.booleans() | st.just("3") | st.just({}) | st.just(2**32 + 1)
)
plain = st.one_of(
    st.builds(
        lambda n, name: json_patch(op(name, "/spec/replicas", n)), counts, st.sampled_from(["add", "replace", "test"])
    ),
    st.builds(lambda n, of: of({"spec": {"replicas": n}}), counts, st.sampled_from(PATCHES)),
    st.builds(lambda n: Put({"kind": "Scale", "spec": {"replicas": n}}), counts),
    st.builds(lambda n: Put({"kind": "Scale", "spec": n}), counts),
    st.builds(lambda n, of: of({"spec": n}), counts, st.sampled_from(PATCHES)),
)


@given(plain, st.booleans(), st.sampled_from([BASE, None]))
def test_the_short_cut_gives_what_the_document_gives(change, scale, base):
    request = write(change, scale=scale)
    assert resolve(request, base) == resolve_by_document(request, base)


names = st.sampled_from(
    [
        "spec",
        "replicas",
        "template",
        "metadata",
        "labels",
        "containers",
        "name",
        "resources",
        "requests",
        "cpu",
        "$patch",
        "a",
    ]
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "app", "1", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


def nested(*keys):
    def wrap(tree):
        for key in reversed(keys):
            tree = {key: tree}
        return tree

    return wrap


documents = (
    trees | trees.map(nested("spec")) | trees.map(nested("spec", "template", "spec")) | trees.map(nested("metadata"))
)
pointers = st.lists(names | st.sampled_from(["0", "-", "1"]), max_size=6).map(lambda tokens: "/" + "/".join(tokens))
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
    optional={"from": pointers, "value": documents},
)
changes = st.one_of(
    st.builds(lambda tree, of: of(tree), documents, st.sampled_from([Put, MergePatch, StrategicMergePatch, Apply])),
    st.builds(lambda several: JsonPatch(tuple(several)), st.lists(operations, max_size=4)),
)


@settings(deadline=None)
@given(changes, st.booleans(), st.sampled_from([BASE, None, Observed(2, None)]))
def test_whatever_the_tree_it_is_read_or_unreadable_and_never_changed(change, scale, base):
    before = repr(change)
    result = left(change, base, scale=scale)
    assert isinstance(result, Outcome | Unreadable)
    assert repr(change) == before
    if isinstance(result, Outcome) and result.replicas is not None:
        assert 0 <= result.replicas < 2**31

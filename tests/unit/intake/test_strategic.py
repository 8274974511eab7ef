"""Strategic merge patches do what the API server does, on what the gate keeps of a pod."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.effects.patches.strategic import merge
from extauthz.core.errors import PatchError
from extauthz.core.objects.partial import Hidden, Partial


def container(name, cpu="1"):
    return Partial("container", {"name": name, "resources": {"requests": {"cpu": cpu}}})


def pod(*containers, **more):
    return Partial("pod", {"containers": list(containers)} | more)


def merged(patch, *containers, **more):
    return merge(pod(*(containers or map(container, "abc")), **more), patch)


def names(tree, key="containers"):
    return [item["name"] for item in tree[key]]


def test_containers_are_merged_by_name_and_new_ones_added():
    tree = merged({"containers": [{"name": "b", "resources": {"requests": {"memory": "1Gi"}}}, {"name": "d"}]})
    assert names(tree) == ["a", "b", "d", "c"]  # the server puts a new one before those that the patch does not name
    assert tree["containers"][1] == {"name": "b", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    assert tree["containers"][1].of == "container"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param([{"$patch": "delete", "name": "b"}], "ac", id="delete"),
        pytest.param([{"$patch": "delete", "name": "x"}], "abc", id="delete-of-none"),
        pytest.param([{"$patch": "delete", "name": "a"}, {"name": "a"}], "abc", id="delete-and-add-again"),
        pytest.param([{"$patch": "replace"}, {"name": "d"}], "d", id="replace"),
        pytest.param(
            [{"name": "d"}, {"$patch": "replace", "name": "e"}], "d", id="replace-last-and-its-item-is-dropped"
        ),
        pytest.param([{"name": "d"}, {"name": "d", "resources": {}}], "dabc", id="a-new-one-twice"),
        pytest.param([{"name": "c"}, {"name": "a"}], "bca", id="the-patch's-order-goes-first"),
        pytest.param([{"name": "x"}, {"name": "b"}], "xabc", id="a-new-one-before-a-known-one"),
        pytest.param([], "abc", id="nothing"),
    ],
)
def test_a_list_of_containers_comes_out_in_the_server_s_order(patch, expected):
    assert "".join(names(merged({"containers": patch}))) == expected


@pytest.mark.parametrize(
    ("order", "patch", "expected"),
    [
        pytest.param("cab", None, "cab", id="order-alone"),
        pytest.param("ca", None, "bca", id="what-is-not-listed-stays-before-what-it-preceded"),
        pytest.param("dcba", "d", "dcba", id="with-a-new-one"),
        pytest.param("abc", "", "abc", id="with-an-empty-patch"),
        pytest.param("", "a", "abc", id="an-empty-order"),
    ],
)
def test_the_element_order_is_set(order, patch, expected):
    tree = {"$setElementOrder/containers": [{"name": name} for name in order]}
    if patch is not None:
        tree["containers"] = [{"name": name} for name in patch]
    assert "".join(names(merged(tree))) == expected


def test_the_element_order_may_go_with_a_deletion():
    order = [{"name": "c"}, {"name": "a"}]
    tree = merged(
        {"$setElementOrder/containers": order, "containers": [{"$patch": "delete", "name": "b"}, {"name": "a"}]}
    )
    assert names(tree) == ["c", "a"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        pytest.param({"a": 1, "b": 2}, {"$patch": "replace", "c": 3}, {"c": 3}, id="replace"),
        pytest.param({"a": 1}, {"$patch": "delete", "c": 3}, {}, id="delete"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 3}}, {"a": {"c": 3}}, id="nested-replace"),
        pytest.param({"a": 1}, {"a": None, "b": None}, {}, id="null-deletes"),
        pytest.param({"a": 1}, {"a": {"b": None, "c": {"$patch": "delete"}}}, {"a": {}}, id="another-type"),
        pytest.param({}, {"a": [{"$patch": "delete"}, {"b": None}]}, {"a": [{}]}, id="new-content-is-taken-clean"),
        pytest.param({"a": 1}, {"a": {"$patch": "delete"}, "b": {"$patch": "replace"}}, {}, id="no-content"),
        pytest.param({"a": [1]}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="atomic-list-is-taken-as-it-is"),
        pytest.param({"a": 1, "b": 2}, {"$retainKeys": ["b", "c"], "c": 3, "a": None}, {"b": 2, "c": 3}, id="retain"),
        pytest.param({"a": 1}, {"$deleteFromPrimitiveList/a": None}, {}, id="null-in-a-deletion-deletes-the-field"),
        pytest.param({"a": 1}, {"$deleteFromPrimitiveList/a": ["x"]}, {"a": 1}, id="deletion-from-what-is-no-list"),
        pytest.param({"a": {"b": 1}}, {"$setElementOrder/x": []}, {"a": {"b": 1}}, id="order-of-what-does-not-count"),
    ],
)  # fmt: skip
def test_maps_are_merged_with_their_directives(before, patch, after):
    assert merge(before, patch) == after


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([], id="no-object"),
        pytest.param({"$patch": "merge"}, id="unknown-directive"),
        pytest.param({"$patch": None}, id="null-directive"),
        pytest.param({"$retainKeys": "a"}, id="retain-no-list"),
        pytest.param({"$retainKeys": [1]}, id="retain-no-keys"),
        pytest.param({"$retainKeys": ["a"], "b": 1}, id="set-but-not-retained"),
        pytest.param({"containers": [{"resources": {}}]}, id="no-name"),
        pytest.param({"containers": [{"name": 5}]}, id="name-a-number"),
        pytest.param({"containers": ["a"]}, id="no-objects"),
        pytest.param({"containers": [{"$patch": "delete"}]}, id="delete-without-a-name"),
        pytest.param({"containers": [{"$patch": "merge", "name": "a"}]}, id="unknown-item-directive"),
        pytest.param({"$setElementOrder/containers": "a"}, id="order-no-list"),
        pytest.param({"$setElementOrder/containers": [], "containers": {}}, id="ordered-no-list"),
        pytest.param({"$setElementOrder": []}, id="order-of-nothing"),
        pytest.param({"$setElementOrderly/containers": []}, id="not-quite-the-directive"),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "b"}, {"name": "a"}],
            },
            id="two-orders",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}, id="not-in-the-order"
        ),
        pytest.param({"$deleteFromPrimitiveList/containers": ["a"]}, id="primitives-of-a-list-of-objects"),
    ],
)
def test_what_the_server_refuses_is_malformed(patch):
    with pytest.raises(PatchError) as caught:
        merged(patch)
    assert caught.value.code == "patch-malformed"


def test_init_containers_are_merged_by_name_too():
    inits = {"initContainers": [{"name": "b", "resources": {"requests": {"memory": "1Gi"}}}]}
    tree = merged(inits, initContainers=[container("a"), container("b")])
    assert names(tree, "initContainers") == ["a", "b"]
    assert tree["initContainers"][1]["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}


def test_a_list_that_was_not_there_is_taken_in_the_order_that_is_set():
    init = [{"name": "b"}, {"$patch": "delete", "name": "x"}, {"name": "a"}]
    order = {"$setElementOrder/initContainers": [{"name": "b"}, {"name": "a"}]}
    assert names(merged({"initContainers": init} | order), "initContainers") == ["b", "a"]
    assert names(merged({"initContainers": init}), "initContainers") == ["b", "a"]


def test_a_volume_that_becomes_another_kind_drops_what_it_was():
    volume = Partial("volume", {"name": "v", "ephemeral": {"volumeClaimTemplate": {}}})
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}
    assert merged(patch, volumes=[volume])["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_what_was_never_seen_is_replaced_by_a_value_and_not_merged_with_an_object():
    def spec():
        return Partial("spec", {"replicas": Hidden.BASE, "template": Hidden.BASE})

    assert merge(spec(), {"replicas": 5})["replicas"] == 5
    with pytest.raises(PatchError) as caught:
        merge(spec(), {"template": {"spec": {}}})
    assert caught.value.code == "object-not-seen"


keys = st.sampled_from(
    ["name", "a", "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/a"]
)
trees = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["a", "delete", "replace"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
items = st.fixed_dictionaries(
    {"name": st.sampled_from("abcd")}, optional={"$patch": st.just("delete"), "a": st.integers()}
)


@given(st.dictionaries(keys | st.just("containers"), trees, max_size=4))
def test_any_patch_of_a_pod_applies_or_is_refused_and_is_not_changed(patch):
    before = copy.deepcopy(patch)
    try:
        merged(patch)
    except PatchError as error:
        assert error.code == "patch-malformed"  # noqa: PT017 - both ways are fine, and nothing else is
    assert patch == before


@given(st.lists(items, max_size=5))
def test_a_container_is_there_afterwards_if_the_patch_names_it_or_does_not_delete_it(patch):
    named = {item["name"] for item in patch if "$patch" not in item}
    deleted = {item["name"] for item in patch if "$patch" in item}
    result = names(merged({"containers": patch}))
    assert set(result) == named | ({"a", "b", "c"} - deleted)
    assert len(result) == len(set(result))

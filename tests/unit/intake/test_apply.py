"""Server-side apply is bounded from above, whoever owns the fields that a configuration leaves out."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core import footprint
from extauthz.core.budget import Work, of_meaning
from extauthz.core.effects.applied import applied
from extauthz.core.effects.patches import apply
from extauthz.core.errors import ObjectError, PatchError
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.model import ANY_LABELS, Apply, Observed, Operation, Outcome, OwnerRef, WorkloadRef, Write
from extauthz.core.objects.workloads import intern, prune

NANO = 10**9
WEB = WorkloadRef("apps", "deployments", "shop", "web")
OWNER = {"apiVersion": "acme.dev/v1", "kind": "App", "name": "a", "uid": "u", "controller": True}


def container(name="app", requests=None, limits=None, **more):
    given = {"requests": requests, "limits": limits}
    resources = {key: value for key, value in given.items() if value}
    return {"name": name} | ({"resources": resources} if resources else {}) | more


def tree(*containers, **pod):
    return {"template": {"spec": {"containers": list(containers)} | pod}}


def worst(trees, limit_ranges=(), **context):
    highest = {}
    for one in trees:
        for key, amount in footprint.per_pod(one, limit_ranges, **context).items():
            highest[key] = max(highest.get(key, 0), amount)
    return highest


def templates(live, configuration):
    return apply.templates(live, configuration, of_meaning(scale=False))


def written(configuration, base=None, *, scale=False, ref=WEB):
    return applied(
        Write(ref, Operation.APPLY, scale, False, Apply(configuration)), configuration, base, of_meaning(scale=scale)
    )


def observed(*containers, replicas=3, **more):
    return Observed(replicas, intern(prune(tree(*containers))), **more)


def test_a_configuration_that_sets_everything_has_one_result():
    live = tree(container(requests={"cpu": "1"}, limits={"cpu": "2"}))
    new = tree(container(requests={"cpu": "3"}, limits={"cpu": "4"}))
    assert templates(live, new) == [new]


def test_a_request_that_is_left_out_may_become_the_limit():
    live = tree(container(requests={"cpu": "1"}, limits={"cpu": "2"}))
    assert worst(templates(live, tree(container())))["requests.cpu"] == 2 * NANO


def test_what_is_left_out_of_both_may_become_a_limit_range_s_default_in_one_container_and_stay_in_another():
    live = tree(container("a", {"cpu": "1"}), container("b", {"cpu": "5"}))
    default = (LimitRangeDefaults(requests=(("cpu", 3 * NANO),)),)
    assert worst(templates(live, tree()), default)["requests.cpu"] == 8 * NANO


def test_a_limit_that_is_left_out_may_go_where_the_request_above_it_is_configured():
    live = tree(container("a", {"cpu": "1"}, {"cpu": "1"}), container("b", {"cpu": "5"}, {"cpu": "5"}))
    default = (LimitRangeDefaults(limits=(("cpu", 3 * NANO),)),)
    assert worst(templates(live, tree(container("a", {"cpu": "9"}))), default)["limits.cpu"] == 8 * NANO


def test_pod_level_resources_that_are_left_out_may_go_and_leave_the_containers():
    live = tree(container(requests={"cpu": "2"}), resources={"requests": {"cpu": "3"}, "limits": {"cpu": "3"}})
    for cpu, expected in (("1", 3 * NANO), ("8", 8 * NANO)):
        new = tree(container(requests={"cpu": cpu}))
        assert worst(templates(live, new))["requests.cpu"] == expected


def test_overhead_that_is_left_out_may_go_and_leave_the_runtime_class_s():
    live = tree(overhead={"cpu": "1"}, runtimeClassName="kata")
    for cpu in (0, 4):
        context = {"overheads": {"kata": {"cpu": cpu * NANO}}}
        assert worst(templates(live, tree()), **context)["requests.cpu"] == max(cpu, 1) * NANO


def test_a_storage_class_that_is_left_out_may_go_and_leave_the_default():
    def work(**spec):
        claim = {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1"}}} | spec}}
        return tree(volumes=[{"name": "work", "ephemeral": claim}])

    bound = worst(templates(work(storageClassName="fast"), work()), default_storage_class="slow")
    for name in ("fast", "slow"):
        assert bound[f"{name}.storageclass.storage.k8s.io/requests.storage"] == NANO


def test_a_container_that_is_left_out_stays():
    live = tree(container("a", {"cpu": "1"}), container("b", {"cpu": "5"}))
    assert worst(templates(live, tree(container("a", {"cpu": "2"}))))["requests.cpu"] == 7 * NANO


def test_a_sidecar_that_is_left_out_may_start_before_what_is_configured():
    live = tree(
        initContainers=[container("seed", {"cpu": "4"}), container("proxy", {"cpu": "1"}, restartPolicy="Always")]
    )
    new = tree(initContainers=[container("seed", {"cpu": "4"})])
    assert worst(templates(live, new))["requests.cpu"] == 5 * NANO


def test_claims_are_the_configured_ones_or_else_those_that_are_there():
    live = tree() | {"volumeClaimTemplates": [{"spec": {}}]}
    new = tree() | {"volumeClaimTemplates": [{"spec": {}}, {"spec": {}}]}
    assert worst(templates(live, new))["persistentvolumeclaims"] == 2 * NANO
    assert worst(templates(live, tree()))["persistentvolumeclaims"] == 1 * NANO


def test_a_configuration_with_too_many_possible_results_is_not_read():
    requests = [{f"acme.dev/{m}": str(n * (m + 1) % 41) for m in range(9)} for n in range(1, 41)]
    live = tree(*(container(str(n), request) for n, request in enumerate(requests)))
    with pytest.raises(PatchError) as caught:
        templates(live, tree())
    assert caught.value.code == "apply-too-ambiguous"


def test_results_of_several_kinds_multiply():
    given = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    containers = [container(str(n), {"cpu": str(n + 1)}) for n in range(10)]
    assert len(templates(tree(*containers, **given), tree())) == 11 * 4
    overhead = {"overhead": {"cpu": "1"}}
    work = Work(10**9)
    containers = [container(str(n), {"cpu": str(n + 1)}) for n in range(40)]
    with pytest.raises(PatchError) as caught:
        apply.templates(tree(*containers, **given, **overhead), tree(), work)
    assert caught.value.code == "apply-too-ambiguous"


def test_an_amount_that_is_none_is_not_read():
    with pytest.raises(PatchError) as caught:
        templates(tree(container(requests={"cpu": "much"})), tree())
    assert caught.value.code == "bad-quantity"


amount = st.sampled_from(["0", "1", "2", "3"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), amount, max_size=2)
resources = st.fixed_dictionaries({"requests": amounts, "limits": amounts})
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc"), "resources": resources}),
    max_size=3,
    unique_by=lambda c: c["name"],
)
inits = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ijk"), "resources": resources}, optional={"restartPolicy": st.just("Always")}
    ),
    max_size=2,
    unique_by=lambda c: c["name"],
)
claims = st.builds(
    lambda spec: {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1"}}} | spec}},
    st.fixed_dictionaries({}, optional={"storageClassName": st.sampled_from(["fast", "slow"])}),
)
volumes = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("vw")}, optional={"ephemeral": claims}),
    max_size=2,
    unique_by=lambda v: v["name"],
)
pods = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "initContainers": inits,
        "volumes": volumes,
        "resources": resources,
        "overhead": amounts,
        "runtimeClassName": st.just("kata"),
    },
)
_LISTS = ("containers", "initContainers", "volumes")


def owned(draw, live, new):
    """What the server makes of it for one way in which the fields may be owned: each that is left out stays or goes."""
    if isinstance(new, dict) or (isinstance(live, dict) and new is None):
        live, new = live or {}, new or {}
        kept = {
            key: owned(draw, value, new.get(key)) for key, value in live.items() if key in new or draw(st.booleans())
        }
        return kept | {key: value for key, value in new.items() if key not in live}
    if isinstance(live, list):
        old, named = {item["name"]: item for item in live}, {item["name"] for item in new or ()}
        result = [owned(draw, old[item["name"]], item) if item["name"] in old else item for item in new or ()]
        for item in live:
            if item["name"] not in named and draw(st.booleans()):
                result.insert(draw(st.integers(0, len(result))), owned(draw, item, {"name": item["name"]}))
        return result
    return live if new is None else new


@settings(deadline=None)
@given(st.data(), pods, pods, st.sampled_from(["0", "2", "5"]), st.sampled_from(["0", "2", "5"]))
def test_no_ownership_of_fields_gives_more_than_the_worst_of_the_templates(data, live, new, request, limit):
    live, new = prune({"template": {"spec": live}}), prune({"template": {"spec": new}})
    result = copy.deepcopy(owned(data.draw, live["template"]["spec"], new["template"]["spec"]))
    level = {"cpu": int(request) * NANO, "memory": int(limit) * NANO}
    defaults = (LimitRangeDefaults(requests=tuple(level.items()), limits=tuple(level.items())),)
    context = {"overheads": {"kata": {"cpu": 4 * NANO}}, "default_storage_class": "slow"}
    bound = worst(templates(live, new), defaults, **context)
    for key, cost in footprint.per_pod({"template": {"spec": result}}, defaults, **context).items():
        assert cost <= bound[key], key


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (5, 5), (5.0, 5), (2**32 + 5, 5), (2**53, 0)],
    ids=str,
)
def test_a_count_is_converted_as_the_server_does_it(value, expected):
    assert written({"spec": {"replicas": value}}, observed(container())).replicas == expected
    assert written({"spec": {"replicas": value}}, scale=True) == Outcome(expected)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (-1, "replicas-negative"),
        (2**32 - 1, "replicas-negative"),
        (2**31, "replicas-negative"),
        (1.5, "replicas-not-an-integer"),
        (float("inf"), "replicas-not-an-integer"),
        (True, "replicas-not-an-integer"),
        ("5", "replicas-not-an-integer"),
        (2**53 + 1, "replicas-too-large"),
    ],
    ids=str,
)
def test_a_count_that_the_server_refuses_or_rounds_is_not_read(value, code):
    with pytest.raises(ObjectError) as caught:
        written({"spec": {"replicas": value}}, observed(container()))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("base", "scale", "expected"),
    [
        pytest.param(observed(container(), replicas=3), False, 3, id="stays"),
        pytest.param(observed(container(), replicas=0), False, 1, id="may-be-defaulted"),
        pytest.param(observed(container(), replicas=3), True, None, id="scale-stays-or-goes-to-zero"),
    ],
)
def test_a_count_that_is_left_out_grows_to_the_default_at_most(base, scale, expected):
    assert written({}, base, scale=scale).replicas == expected


def test_applying_to_nothing_creates():
    configuration = {
        "metadata": {"labels": {"app": "web"}, "ownerReferences": [OWNER]},
        "spec": tree(container(requests={"cpu": "1"})),
    }
    template = intern(prune(configuration["spec"]))
    created = Outcome(1, (template,), "app=web", OwnerRef("acme.dev", "App", "a", "u"), keeps_count=True)
    assert written(configuration) == created, "an object that was not seen may be there, with any count"
    configuration["spec"]["replicas"] = 2
    assert written(configuration) == created._replace(replicas=2, keeps_count=False)


@pytest.mark.parametrize(
    ("metadata", "owner", "frees"),
    [
        pytest.param({}, OwnerRef("acme.dev", "App", "a", "u"), True, id="left-out"),
        pytest.param({"ownerReferences": [OWNER]}, OwnerRef("acme.dev", "App", "a", "u"), False, id="named"),
        pytest.param({}, None, False, id="none-is-there"),
    ],
)
def test_a_controller_that_is_left_out_may_stay_or_go(metadata, owner, frees):
    assert written({"metadata": metadata}, observed(container(), owner=owner)).frees is frees


def test_applying_a_replication_controller_defaults_its_labels_when_it_is_created():
    ref = WorkloadRef("", "replicationcontrollers", "shop", "web")
    spec = {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}
    assert written({"spec": spec}, ref=ref).labels == "app=web"
    assert written({"spec": spec}, observed(container(), labels=""), ref=ref).labels is None


def test_labels_are_merged_into_those_that_are_there():
    base = observed(container(), labels="a=1,b=2")
    assert written({"metadata": {"labels": {"a": "0", "b": "3"}}}, base).label_sets == ("a=0,b=3",)
    assert written({"metadata": {}}, observed(container())).label_sets == ()


def test_each_label_that_is_left_out_may_stay_or_go_on_its_own():
    base = observed(container(), labels="a=1,b=2,c=3")
    kept = {"a=1,b=2,c=3", "a=1,b=2", "a=1,c=3", "b=2,c=3", "a=1", "b=2", "c=3", ""}
    assert set(written({"metadata": {}}, base).label_sets) == kept
    assert written({"metadata": {"labels": {"a": "0", "c": "0"}}}, base).label_sets == ("a=0,b=2,c=0", "a=0,c=0")


def test_of_more_labels_that_are_left_out_nobody_can_tell_what_stays():
    base = observed(container(), labels="a=1,b=2,c=3,d=4")
    assert written({"metadata": {"labels": {"b": "0"}}}, base).label_sets[-1] == "b=0", "three: all sets are listed"
    assert written({}, base).label_sets == ("a=1,b=2,c=3,d=4", ANY_LABELS)


def test_a_replication_controller_without_labels_takes_those_of_its_pods_which_were_not_kept():
    ref, base = WorkloadRef("", "replicationcontrollers", "shop", "web"), observed(container(), labels="a=1")
    assert written({}, base, ref=ref).label_sets == ("a=1", "", ANY_LABELS)
    assert written({"metadata": {"labels": {"b": "2"}}}, base, ref=ref).label_sets == ("a=1,b=2", "b=2")


def test_a_label_that_is_null_is_set_to_nothing():
    assert written({"metadata": {"labels": {"a": None}}}, observed(container(), labels="a=1")).label_sets == ("a=",)


def test_an_object_whose_template_is_unknown_gets_what_is_configured():
    configuration = {"spec": tree(container(requests={"cpu": "1"}))}
    assert written(configuration, Observed(3, None)).templates == (intern(prune(configuration["spec"])),)


FIVE = {"ordinals": {"start": 5}}


@pytest.mark.parametrize(
    ("live", "given", "left"),
    [
        pytest.param({}, {}, [{}], id="neither"),
        pytest.param(FIVE, {}, [FIVE, {}], id="left-out-it-stays-or-goes"),
        pytest.param({}, FIVE, [FIVE], id="given"),
        pytest.param(FIVE, {"ordinals": {"start": 2}}, [{"ordinals": {"start": 2}}], id="given-anew"),
    ],
)
def test_the_first_ordinal_of_a_stateful_set_is_as_given_or_stays_or_goes(live, given, left):
    whole = tree(container(requests={"cpu": "1"}, limits={"cpu": "1"}))
    assert templates(whole | live, whole | given) == [whole | start for start in left]

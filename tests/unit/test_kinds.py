"""One table of kinds: whatever names kinds elsewhere names the same ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core import footprint, kinds, resources
from extauthz.core.intake import counts
from extauthz.core.kinds import BY_KEY, GATED, KINDS, WorkloadKind
from extauthz.core.model import Unreadable
from extauthz.core.resources import ResourceKeyError, Treatment, treatment
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.live import PHASES
from extauthz.tools.doctor.cluster import RIGHTS
from tests.waiting import not_hanging
from tools.release import drawn

IDS = [kind.name for kind in KINDS]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=IDS)


@every_kind
def test_it_is_watched_as_the_table_has_it(kind: WorkloadKind):
    watched = {(one.group, one.plural): one for phase in PHASES for one in phase}

    assert (watched[kind.key].kind, watched[kind.key].version) == (kind.name, kind.version)


@every_kind
def test_the_doctor_asks_for_the_right_to_watch_it(kind: WorkloadKind):
    assert {right.verb for right in RIGHTS if (right.group, right.plural) == kind.key} == {"list", "watch"}


@every_kind
def test_whoever_creates_it_is_listed_before(kind: WorkloadKind):
    phase_of = {(one.group, one.plural): number for number, phase in enumerate(PHASES) for one in phase}

    creators = [] if kind.key == kinds.REVISIONS else kind.created_by  # these count only once a StatefulSet runs them
    assert all(phase_of[creator] < phase_of[kind.key] for creator in creators)


def test_each_is_read_but_revisions_which_count_only_where_a_stateful_set_runs_them():
    read = {kinds.BY_NAME[name].key for name in object_readers.COUNTED}

    assert read == BY_KEY.keys() - {kinds.REVISIONS}


@pytest.mark.parametrize("kind", GATED, ids=[kind.name for kind in GATED])
def test_an_odd_path_that_may_name_a_gated_kind_is_not_let_through(kind: WorkloadKind):
    assert isinstance(counts.routed("PATCH", f"/apis/apps/v1//namespaces/a/{kind.key[1]}/web"), Unreadable)


@pytest.mark.parametrize("kind", GATED, ids=[kind.name for kind in GATED])
def test_a_quota_may_count_its_objects(kind: WorkloadKind):
    group, plural = kind.key

    assert treatment(f"count/{plural}.{group}" if group else f"count/{plural}") is not Treatment.NOT_COUNTED


BY_CLASS = ".storageclass.storage.k8s.io"
ACCEPTED = {
    "cpu": "requests.cpu",
    "memory": "requests.memory",
    "ephemeral-storage": "requests.ephemeral-storage",
    "requests.cpu": "requests.cpu",
    "limits.memory": "limits.memory",
    "limits.ephemeral-storage": "limits.ephemeral-storage",
    "hugepages-2Mi": "requests.hugepages-2Mi",
    "requests.hugepages-1Gi": "requests.hugepages-1Gi",
    "requests.nvidia.com/gpu": "requests.nvidia.com/gpu",
    "requests.example.com/a_b.C-1": "requests.example.com/a_b.C-1",
    "requests.deviceclass.resource.kubernetes.io/gpu": "requests.deviceclass.resource.kubernetes.io/gpu",
    "requests.storage": "requests.storage",
    f"gold{BY_CLASS}/requests.storage": f"gold{BY_CLASS}/requests.storage",
    f"a.b{BY_CLASS}/persistentvolumeclaims": f"a.b{BY_CLASS}/persistentvolumeclaims",
    "gpu.deviceclass.resource.k8s.io/devices": "gpu.deviceclass.resource.k8s.io/devices",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "count/persistentvolumeclaims": "count/persistentvolumeclaims",
    "pods": "pods",
    "count/pods": "count/pods",
    "count/deployments.apps": "count/deployments.apps",
    "count/statefulsets.apps": "count/statefulsets.apps",
    "count/replicasets.apps": "count/replicasets.apps",
    "replicationcontrollers": "count/replicationcontrollers",
    "count/replicationcontrollers": "count/replicationcontrollers",
}

KEEP_IT = "remove the key, and keep the ResourceQuota of each namespace for it"
REFUSED = {
    "nvidia.com/gpu": 'use "requests.nvidia.com/gpu"',
    "limits.nvidia.com/gpu": 'use "requests.nvidia.com/gpu"',
    "limits.hugepages-2Mi": 'use "requests.hugepages-2Mi"',
    "storage": 'use "requests.storage"',
    "limits.storage": 'use "requests.storage"',
    "count/deployments": 'use "count/deployments.apps"',
    "count/statefulsets.extensions": 'use "count/statefulsets.apps"',
    f"gold{BY_CLASS}/limits.storage": f'use "gold{BY_CLASS}/requests.storage"',
    "services": KEEP_IT,
    "services.loadbalancers": KEEP_IT,
    "configmaps": KEEP_IT,
    "count/secrets": KEEP_IT,
    "count/services.serving.knative.dev": KEEP_IT,
    "requets.cpu": 'did you mean "requests.cpu"?',
    "cpuu": 'did you mean "requests.cpu"?',
    "Pods": 'did you mean "pods"?',
    "kubernetes.io/foo": "see the table of quota keys in the documentation",
    "": "see the table of quota keys in the documentation",
    "cpu\n": 'did you mean "requests.cpu"?',
    "requests.nvidia.com/": 'did you mean "requests.nvidia.com/gpu"?',
}


@pytest.mark.parametrize(("key", "expected"), ACCEPTED.items(), ids=list(ACCEPTED))
def test_a_counted_key_has_one_spelling(key, expected):
    assert resources.canonical(key) == expected
    assert resources.canonical(expected) == expected


@pytest.mark.parametrize(("key", "cure"), REFUSED.items(), ids=[repr(key) for key in REFUSED])
def test_a_key_that_no_write_raises_is_refused_with_a_cure(key, cure):
    with pytest.raises(ResourceKeyError) as caught:
        resources.canonical(key)
    assert (caught.value.key, caught.value.cure) == (key, cure)
    assert str(caught.value) == f"{key!r}: {caught.value.why}; {cure}"


@pytest.mark.parametrize(
    ("key", "treatment"),
    [("cpu", Treatment.GATED), ("count/replicasets.apps", Treatment.OBSERVED), ("secrets", Treatment.NOT_COUNTED)],
)
def test_every_family_has_a_treatment(key, treatment):
    assert resources.treatment(key) is treatment


def test_a_key_that_resource_quota_does_not_know_has_no_treatment():
    with pytest.raises(ResourceKeyError, match="ResourceQuota knows no such key"):
        resources.treatment("frobs")


def test_every_key_of_a_footprint_can_be_in_a_quota_as_it_is_spelled():
    amounts = dict.fromkeys(("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"), 1)
    claim = {"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": 1}}}}
    tree = {"template": {"spec": {"containers": [{"resources": {"limits": amounts}}]}}, "volumeClaimTemplates": [claim]}
    keys = footprint.per_pod(tree)
    assert len(keys) == 15
    for key in keys:
        assert resources.canonical(key) == key
        assert resources.treatment(key) is Treatment.GATED


def test_every_cure_that_names_a_key_names_one_that_is_accepted():
    for cure in REFUSED.values():
        if '"' in cure:
            resources.canonical(cure.split('"')[1])


def test_each_key_is_documented_once_with_its_treatment():
    text = drawn.keys()
    assert text.count("\n- ") == len(resources.TABLE)
    assert text.index("**Gated**") < text.index("`requests.nvidia.com/gpu`") < text.index("**Observed**")


def test_a_long_key_does_not_hang_it():
    with not_hanging():
        for key in ("a" * 100_000, "requests." + "a-" * 50_000, "a." * 50_000 + "/", "count/" + "a." * 50_000):
            with pytest.raises(ResourceKeyError):
                resources.canonical(key)


@given(st.text(alphabet="acepqru./-stoKubernetsi io_\n", max_size=40))
def test_no_key_raises_anything_but_a_resource_key_error(key):
    try:
        assert resources.canonical(resources.canonical(key)) == resources.canonical(key)
    except ResourceKeyError:
        return

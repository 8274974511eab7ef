"""Objects of the worlds with pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extauthz.core.model import Tree
from tests.worlds.judge import Key
from tests.worlds.objects import REPLICA_SET, Kind, container, milli, reference

DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
CREW = Kind("ops.example.com/v1", "Crew", "crews")
"""A custom resource without a template. Its operator makes pods of one that nobody sees."""
TEAM = Kind("ops.example.com/v1", "Team", "teams")
"""A custom resource with two templates. Its operator makes a pod of each for every replica."""
POD = Kind("v1", "Pod", "pods")
JOB = Kind("batch/v1", "Job", "jobs")
CLAIM = Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
CLAIM_TEMPLATE = Kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")

DEVICE_CLASSES = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses")

VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SCRATCH, SCRATCH_SIZE = "scratch", 10
"""The ephemeral volume of each pod of a Job ``web-spill-2`` or of a StatefulSet ``web-cache-2``, and how much it
claims: as long as the pod is an object, finished or not."""

FIRST, RETRIES = 2, 1
"""So many pods of such a Job finish at first, and so many may fail."""

RUNTIME_CLASSES = Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses")

RUNTIME_CLASS, OVERHEAD = "kata", "500m"
"""What pods of a workload ``web-kata-2`` name, and what it adds to each of them. It comes late, and it goes."""

LIMIT_RANGE = Kind("v1", "LimitRange", "limitranges")
DEFAULTS, DEFAULT_CPU = "defaults", "500m"
"""A LimitRange, and what pods of a Deployment ``web-bare-2`` get by it: they ask for nothing. It comes late."""

ODD_SURGES = ("1%", "33%", "130%")
"""``maxSurge`` of Deployments ``web-surge-2``, by their number."""

INDEX = "batch.kubernetes.io/job-completion-index"
MANAGER = "kueue.x-k8s.io/multikueue"

DEVICE_CLASS = "gpu.example.com"
OWN, SHARED = "own", "shared"
"""The claims of devices that each pod of a workload ``web-dra-2`` names: one that is made for it from the template of
that name, and one that all pods of its namespace share."""

SHARED_DEVICES = 2
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"

POD_GROUPS = "{teams.ops.example.com: [{template: .spec.leader}, {template: .spec.template}]}"
"""The setting by which gates know a Team."""

LEADER = "1"
"""What the leader of a Team asks for."""

WORKLOADS: Mapping[str, Kind] = {
    "deploy": DEPLOYMENT,
    "sts": STATEFUL_SET,
    "crew": CREW,
    "team": TEAM,
    "job": JOB,
    "dra": DEPLOYMENT,
    "kata": DEPLOYMENT,
    "bare": DEPLOYMENT,
    "surge": DEPLOYMENT,
    "cache": STATEFUL_SET,
    "spill": JOB,
    "elastic": JOB,
    "index": JOB,
    "success": JOB,
    "strict": JOB,
    "foreign": JOB,
    "pod": POD,
}
"""By the word in a name: ``web-sts-2``. Pods by themselves are many of one name."""

MAKES: Mapping[str, tuple[Kind, ...]] = {
    "deploy": (DEPLOYMENT, REPLICA_SET),
    "sts": (STATEFUL_SET, REVISION),
    "crew": (CREW,),
    "team": (TEAM,),
    "job": (JOB,),
    "dra": (DEPLOYMENT, REPLICA_SET, CLAIM, CLAIM_TEMPLATE),
    "kata": (DEPLOYMENT, REPLICA_SET, RUNTIME_CLASSES),
    "bare": (DEPLOYMENT, REPLICA_SET, LIMIT_RANGE),
    "surge": (DEPLOYMENT, REPLICA_SET),
    "cache": (STATEFUL_SET, REVISION, VOLUME_CLAIM),
    "spill": (JOB, VOLUME_CLAIM),
    **dict.fromkeys(("elastic", "index", "success", "strict", "foreign"), (JOB,)),
    "pod": (),
}
"""What there is of each, besides pods."""

COMPLETIONS = 6
"""After so many pods a Job ends, if it does."""

_INDEXED = {"completionMode": "Indexed", "completions": COMPLETIONS}
_JOBS: Mapping[str, Tree] = {
    "spill": {"completions": FIRST, "backoffLimit": RETRIES},
    "elastic": _INDEXED,
    "index": {**_INDEXED, "backoffLimitPerIndex": 0},
    "success": {**_INDEXED, "successPolicy": {"rules": [{"succeededCount": 2}]}},
    "strict": {
        "completions": COMPLETIONS,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    },
    "foreign": {"managedBy": MANAGER},
}
"""What Jobs say by the word in their name. An elastic one asks for as many completions as pods at once."""

TIER = "tier"
"""A label by which quotas select workloads. Templates do not have it, nor what controllers make."""

SIDECAR = "side"
"""The name of the container that somebody puts into pods."""

SIDECAR_CPU = "250m"


def word_of(name: str) -> str:
    """The word in the name of a workload."""
    return name.split("-")[1]


def kind_of(name: str) -> Kind:
    """Of a workload."""
    return WORKLOADS[word_of(name)]


def workload(key: Key, replicas: int, cpu: str, **more: Any) -> Tree:
    """One of ``WORKLOADS`` as the API server prints it."""
    kind, (namespace, name) = kind_of(key[1]), key
    spec: dict[str, Any] = {"parallelism" if kind is JOB else "replicas": replicas, **more}
    if kind is not CREW:
        spec |= {"selector": {"matchLabels": {"app": name}}, "template": template(name, cpu)}
    spec = {**_JOBS.get(word_of(name), {}), **spec}
    if word_of(name) == "elastic":
        spec["completions"] = replicas
    if kind is TEAM:
        spec["leader"] = template(name, LEADER)
    if kind is DEPLOYMENT:
        surge = ODD_SURGES[int(name.split("-")[2]) % 3] if word_of(name) == "surge" else "25%"
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": "25%"}}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}, "generation": 1}
    return {"apiVersion": kind.api, "kind": kind.kind, "metadata": metadata, "spec": spec, "status": {}}


def variant(kind: Kind, *, parallel: bool) -> dict[str, Any]:
    """More of a spec: a StatefulSet's pods come in parallel; a Job ends after some pods."""
    if parallel and kind is STATEFUL_SET:
        return {"podManagementPolicy": "Parallel"}
    return {"completions": COMPLETIONS} if parallel and kind is JOB else {}


def has_policy(name: str) -> bool:
    """Whether a Job says more by its name than how many pods it has."""
    return word_of(name) in _JOBS


def ordinals(tree: Tree) -> range:
    """Those of the pods that a StatefulSet asks for."""
    start = tree["spec"].get("ordinals", {}).get("start", 0)
    return range(start, start + tree["spec"]["replicas"])


def partitioned(at: int | None) -> Tree:
    """The ``updateStrategy`` of a StatefulSet: pods below an ordinal stay as they are; ``None``: all, until somebody
    deletes them."""
    return {"type": "OnDelete"} if at is None else {"type": "RollingUpdate", "rollingUpdate": {"partition": at}}


def is_by_hand(stateful_set: Tree) -> bool:
    """Whether its pods stay as they are until somebody deletes them."""
    return bool(stateful_set["spec"].get("updateStrategy", {}).get("type") == "OnDelete")


def template(app: str, cpu: str) -> Tree:
    """A pod template."""
    claims = [
        {"name": OWN, "resourceClaimTemplateName": OWN},
        {"name": SHARED, "resourceClaimName": SHARED},
    ]
    more: dict[str, Any] = {"resourceClaims": claims} if word_of(app) == "dra" else {}
    if word_of(app) == "kata":
        more["runtimeClassName"] = RUNTIME_CLASS
    if word_of(app) in ("spill", "cache"):
        size = {"spec": {"resources": {"requests": {"storage": str(SCRATCH_SIZE)}}}}
        more["volumes"] = [{"name": SCRATCH, "ephemeral": {"volumeClaimTemplate": size}}]
    own = container(cpu) if word_of(app) != "bare" else _silent()
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [own], **more}}


def _silent() -> Tree:
    """A container that asks for nothing."""
    return {**container(""), "resources": {"requests": {}}}


def cpu_of(tree: Tree) -> str:
    """What a pod of a workload's template asks for."""
    cpu: str = tree["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"].get("cpu", "0")
    return cpu


def each_m(tree: Tree) -> int:
    """The same with what its RuntimeClass adds, in thousandths."""
    return milli(cpu_of(tree)) + (milli(OVERHEAD) if names_class(tree) else 0)


def names_class(tree: Tree) -> bool:
    """Whether pods of a workload, a Crew aside, have a RuntimeClass."""
    return "runtimeClassName" in tree["spec"].get("template", {"spec": {}})["spec"]


def pods_of(tree: Tree) -> int:
    """How many pods a workload asks for; of a Job as many as may run at once."""
    if tree["kind"] == JOB.kind:
        return _at_once(tree["spec"], tree["status"])
    count: int = tree["spec"]["replicas"]
    return 2 * count if tree["kind"] == TEAM.kind else count


def _at_once(spec: Tree, status: Tree) -> int:
    """``manageJob``: written without the product's own reader."""
    if spec.get("suspend") or status.get("conditions"):
        return 0
    if "managedBy" in spec:
        return 0
    done, most = int(status.get("succeeded", 0)), int(spec["parallelism"])
    if spec.get("completionMode") == "Indexed":
        done = len(indexes_done(status, int(spec["completions"])))
    if "completions" in spec:
        return max(min(most, int(spec["completions"]) - done), 0)
    return int(status["active"]) if done else most


def indexes_done(status: Tree, completions: int) -> set[int]:
    """Of which an Indexed Job makes no pod any more, by its status, where each stands for itself."""
    listed = f"{status.get('completedIndexes', '')},{status.get('failedIndexes', '')}".split(",")
    return {int(one) for one in listed if one and int(one) < completions}


def index_of(pod: Tree) -> int:
    """Of a pod of an Indexed Job."""
    return int(pod["metadata"]["labels"][INDEX])


def is_beyond(job: Tree, pod: Tree) -> bool:
    """Whether an elastic Job has shrunk below it."""
    is_indexed = job["spec"].get("completionMode") == "Indexed"
    return is_indexed and bool(index_of(pod) >= job["spec"]["completions"])


def ended(job: Tree, pods: Iterable[Tree]) -> dict[str, Tree]:
    """The status of a Job by pods that have ended: how many, and of which indexes. It keeps those beyond its
    completions, as the controller does until it has another reason to write."""
    done, failed = [one for one in pods if has_ended(one)], [one for one in pods if has_failed(one)]
    if job["spec"].get("completionMode") != "Indexed":
        return {"succeeded": len(done)}
    below = range(job["spec"]["completions"])
    completed = {*map(index_of, done)}
    lost = {*map(index_of, failed)} - completed if "backoffLimitPerIndex" in job["spec"] else set()
    listed = {"completedIndexes": completed, "failedIndexes": lost}
    return {
        "succeeded": len(completed & {*below}),
        **{name: ",".join(map(str, sorted(some))) for name, some in listed.items()},
    }


def cost_m(tree: Tree) -> int:
    """What all of them ask for by its templates, in thousandths of a CPU. A Crew does not say."""
    if tree["kind"] == CREW.kind:
        return 0
    if tree["kind"] == TEAM.kind:
        return int(tree["spec"]["replicas"]) * (milli(cpu_of(tree)) + milli(LEADER))
    return pods_of(tree) * each_m(tree)


def replica_set(deployment: Tree, replicas: int) -> Tree:
    """One that a Deployment's controller makes for its template."""
    metadata, cpu = deployment["metadata"], cpu_of(deployment)
    own = {
        "name": f"{metadata['name']}-{cpu}",
        "namespace": metadata["namespace"],
        "labels": {**made_labels(deployment), "pod-template-hash": cpu},
        "ownerReferences": [reference(deployment)],
    }
    spec = {**{key: deployment["spec"][key] for key in ("selector", "template")}, "replicas": replicas}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": own, "spec": spec, "status": {}}


def revision(stateful_set: Tree) -> Tree:
    """The ControllerRevision of its template."""
    metadata, cpu = stateful_set["metadata"], cpu_of(stateful_set)
    own = {
        "name": f"{metadata['name']}-r{cpu}",
        "namespace": metadata["namespace"],
        "labels": made_labels(stateful_set),
        "ownerReferences": [reference(stateful_set)],
    }
    data = {"spec": {"template": {**stateful_set["spec"]["template"], "$patch": "replace"}}}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": own, "data": data, "revision": 1}


def pod(owner: Tree, name: str, cpu: str, *, side: bool, revision: str = "", index: str = "") -> Tree:
    """One that a controller makes."""
    metadata, own_labels = owner["metadata"], {"controller-revision-hash": revision, INDEX: index}
    labels = {**made_labels(owner), **{label: value for label, value in own_labels.items() if value}}
    own = {"name": name, "namespace": metadata["namespace"], "labels": labels, "ownerReferences": [reference(owner)]}
    main = container(cpu) if milli(cpu) else _silent()
    containers = [main, *([container(SIDECAR_CPU, SIDECAR)] if side else [])]
    made = owner["spec"].get("template", {"spec": {}})["spec"]
    more = {key: made[key] for key in ("resourceClaims", "runtimeClassName", "volumes") if key in made}
    if "runtimeClassName" in more:
        more["overhead"] = {"cpu": OVERHEAD}
    return _pod(own, {"containers": containers, **more})


def pod_alone(app: Key, name: str, cpu: str, owner: str) -> Tree:
    """One that somebody makes, for an owner of a kind that nobody knows, or for none (empty)."""
    own: dict[str, Any] = {"name": name, "namespace": app[0], "labels": {"app": app[1]}}
    if owner:
        made_by = {"apiVersion": "train.example.com/v1", "kind": "Train", "name": owner, "uid": owner}
        own["ownerReferences"] = [made_by | {"controller": True}]
    return _pod(own, {"containers": [container(cpu)]})


def _pod(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Tree:
    own = {**metadata, "generation": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec, "status": {"phase": "Pending"}}


def device_class() -> Tree:
    """The only one that there is."""
    return {"apiVersion": DEVICE_CLASSES.api, "kind": DEVICE_CLASSES.kind, "metadata": {"name": DEVICE_CLASS}}


def runtime_class() -> Tree:
    """The only one that there is, once it has come."""
    metadata = {"name": RUNTIME_CLASS}
    return {
        "apiVersion": RUNTIME_CLASSES.api,
        "kind": RUNTIME_CLASSES.kind,
        "metadata": metadata,
        "handler": RUNTIME_CLASS,
        "overhead": {"podFixed": {"cpu": OVERHEAD}},
    }


def limit_range(namespace: str) -> Tree:
    """What its containers get that ask for nothing."""
    metadata = {"name": DEFAULTS, "namespace": namespace}
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": DEFAULT_CPU}}]}
    return {"apiVersion": LIMIT_RANGE.api, "kind": LIMIT_RANGE.kind, "metadata": metadata, "spec": spec}


def claim_template(namespace: str, devices: int) -> Tree:
    """From which each pod gets a claim of so many devices."""
    metadata = {"name": OWN, "namespace": namespace, "labels": {"app": OWN}}
    spec = {"spec": _devices(devices)}
    return {"apiVersion": CLAIM_TEMPLATE.api, "kind": CLAIM_TEMPLATE.kind, "metadata": metadata, "spec": spec}


def shared_claim(namespace: str) -> Tree:
    """That many pods name."""
    metadata = {"name": SHARED, "namespace": namespace, "labels": {"app": SHARED}}
    return {"apiVersion": CLAIM.api, "kind": CLAIM.kind, "metadata": metadata, "spec": _devices(SHARED_DEVICES)}


def claim(pod: Tree, template: Tree, number: int) -> Tree:
    """That is made for a pod."""
    metadata = {
        "name": f"{pod['metadata']['name']}-{OWN}-{number}",
        "namespace": pod["metadata"]["namespace"],
        "labels": pod["metadata"]["labels"],
        "annotations": {POD_CLAIM: OWN},
        "ownerReferences": [reference(pod)],
    }
    return {"apiVersion": CLAIM.api, "kind": CLAIM.kind, "metadata": metadata, "spec": template["spec"]["spec"]}


def volume_claim(pod: Tree) -> Tree:
    """Of the ephemeral volume of a pod."""
    volume = pod["spec"]["volumes"][0]
    metadata = {
        "name": f"{pod['metadata']['name']}-{SCRATCH}",
        "namespace": pod["metadata"]["namespace"],
        "labels": pod["metadata"]["labels"],
        "ownerReferences": [reference(pod)],
    }
    spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
    return {"apiVersion": VOLUME_CLAIM.api, "kind": VOLUME_CLAIM.kind, "metadata": metadata, "spec": spec, "status": {}}


def _devices(count: int) -> Tree:
    exactly = {"deviceClassName": DEVICE_CLASS, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "all", "exactly": exactly}]}}


def devices_of(tree: Tree) -> int:
    """How many a claim has, or each that is made from a template."""
    spec = tree["spec"].get("spec", tree["spec"])
    return sum(int(one["exactly"]["count"]) for one in spec["devices"]["requests"])


def names_own(pod: Tree) -> bool:
    """Whether a claim is made for a pod."""
    return any("resourceClaimTemplateName" in one for one in pod["spec"].get("resourceClaims", ()))


def owner_uid(tree: Tree) -> str | None:
    """Of its controller; ``None``: it has none."""
    owners = tree["metadata"].get("ownerReferences")
    return owners[0]["uid"] if owners else None


def without_owner(tree: Tree) -> Tree:
    """The same object, left behind by its controller."""
    metadata = {key: value for key, value in tree["metadata"].items() if key != "ownerReferences"}
    return {**tree, "metadata": metadata}


def asks(pod: Tree) -> str:
    """What the first container of a pod asks for."""
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"].get("cpu", "0")
    return cpu


def is_active(pod: Tree) -> bool:
    """Whether it runs or may come to run."""
    return pod["status"]["phase"] not in ("Succeeded", "Failed")


def is_ending(pod: Tree) -> bool:
    """Whether it was deleted, and may still run (``IsPodTerminating``)."""
    return "deletionTimestamp" in pod["metadata"] and is_active(pod)


def ending(pod: Tree) -> Tree:
    """The same pod, deleted."""
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def is_of_a_job(pod: Tree) -> bool:
    """Whether a Job's controller made it."""
    return any(one["kind"] == JOB.kind for one in pod["metadata"].get("ownerReferences", ()))


def has_failed(pod: Tree) -> bool:
    """Whether it never will."""
    return bool(pod["status"]["phase"] == "Failed")


def has_ended(pod: Tree) -> bool:
    """Whether it has done its work."""
    return bool(pod["status"]["phase"] == "Succeeded")


def cpu_m(pod: Tree, *, only: str = "") -> int:
    """What it holds: of each container the larger of what it asks for and what it runs with; thousandths of a CPU.

    Written without the product's own readers. ``only``: of that container.
    """
    held = {one["name"]: one["resources"]["requests"] for one in pod["status"].get("containerStatuses", ())}
    asked = {one["name"]: one["resources"]["requests"] for one in pod["spec"]["containers"]}
    overhead_m = milli(pod["spec"].get("overhead", {}).get("cpu", "0")) if not only else 0
    return overhead_m + sum(
        max(milli(some.get("cpu", "0")) for some in (requests, held.get(name, requests)))
        for name, requests in asked.items()
        if only in ("", name)
    )


def is_silent(pod: Tree) -> bool:
    """Whether its own container asks for no CPU."""
    return "cpu" not in pod["spec"]["containers"][0]["resources"]["requests"]


def made_labels(owner: Tree) -> dict[str, str]:
    """Labels of what a controller makes: those of the template."""
    return {key: value for key, value in owner["metadata"]["labels"].items() if key != TIER}


def with_tier(tree: Tree, tier: str) -> Tree:
    """The same object, of a quota by its label (empty: of none)."""
    labels = {**made_labels(tree), **({TIER: tier} if tier else {})}
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def tier_of(tree: Tree) -> str:
    """Of a workload; empty: of no quota by its label."""
    tier: str = tree["metadata"]["labels"].get(TIER, "")
    return tier


def with_status(tree: Tree, **status: Tree) -> Tree:
    """The same object with another status."""
    return {**tree, "status": {**tree["status"], **status}}


def with_spec(tree: Tree, **spec: Tree) -> Tree:
    """The same object with another spec, which is of another generation."""
    metadata = {**tree["metadata"], "generation": tree["metadata"].get("generation", 1) + 1}
    return {**tree, "metadata": metadata, "spec": {**tree["spec"], **spec}}


def running(pod: Tree) -> Tree:
    """It runs with what it asks for."""
    held = [{"name": one["name"], "resources": one["resources"]} for one in pod["spec"]["containers"]]
    return with_status(pod, phase="Running", containerStatuses=held)


def dearest_m(pods: Iterable[Tree]) -> int:
    """The highest cost of one of them."""
    return max((cpu_m(one) for one in pods), default=0)

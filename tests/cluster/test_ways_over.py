"""What once went over a quota, by what real controllers and a kubelet make of it: the gates stand before them.

Each has a limit below what they make, where the write is refused, and one at it, where they make so much and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.quantities import parse
from tests.cluster.cluster import Cluster
from tests.cluster.typed import Person
from tests.cluster.writers import administrator
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.workspace import workload
from tests.waiting import eventually

Tree = Any

pytestmark = pytest.mark.cluster

WAITS = "import signal; signal.pause()"
ENDS_BUT_THE_FIRST_FOUR = f"import os\nif os.environ['JOB_COMPLETION_INDEX'] < '4': {WAITS}"
MOVE = {"spec": {"ordinals": {"start": 4}}}


@dataclass(frozen=True)
class Acme:
    """A namespace, and its quota."""

    api: Api
    name: str = "acme"

    def limit(self, key: str, amount: str) -> None:
        """From now on the gates go by it."""
        self.api.patch("WorkspaceQuota", self.name, None, {"spec": {"hard": {key: amount}}})
        eventually(lambda: self.told(key, "hard") == parse(amount))

    def told(self, key: str, *what: str) -> int:
        """The sum of these amounts in the quota's status."""
        status = self.api.get("WorkspaceQuota", self.name).get("status", {})
        return sum(parse(status.get(each, {}).get(key, "0")) for each in what)

    def create(self, tree: Tree) -> None:
        tree["metadata"]["namespace"] = self.name
        self.api.create(tree)

    def patch(self, kind: str, name: str, tree: Tree) -> None:
        self.api.patch(kind, name, self.name, tree)

    def exist(self, kind: str) -> set[str]:
        return {one["metadata"]["name"] for one in self.api.list(kind, self.name)}

    def status(self, kind: str, name: str) -> Tree:
        return self.api.get(kind, name, self.name).get("status", {})


@pytest.fixture
def acme(installed: Person, cluster: Cluster, tmp_path: Path) -> Iterator[Acme]:
    with closing(administrator(cluster.kubeconfig, tmp_path / "admin")) as api:
        made = Acme(api)
        named = {"metadata": {"name": made.name, "labels": {"workspace": made.name}}}
        api.create({"apiVersion": "v1", "kind": "Namespace"} | named)
        spec = {"mode": "Enforce", "hard": {}}
        api.create({"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "spec": spec} | named)
        yield made
        installed.types(f"kubectl delete namespace/{made.name} wsq/{made.name}")


def answer(write: Callable[[], None]) -> str:
    """What the API server says."""
    try:
        write()
    except RefusedError as error:
        return str(error)
    return "granted"


def is_answered(write: Callable[[], None], why: str) -> None:
    """In the end: of a new ledger nothing is granted for a while, whatever it is."""
    eventually(lambda: why in answer(write), lambda: answer(write), every_s=1.0)


def runs(script: str, workload: Tree, seconds_to_end: int = 1) -> Tree:
    """Its pods are this one Python program."""
    pod = workload["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = seconds_to_end
    pod["containers"][0]["command"] = ["python3", "-c", script]
    return workload


def job(script: str, parallelism: int, completions: int, **spec: Any) -> Tree:
    template = runs(script, workload("train", 1, {"cpu": "10m"}))["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": parallelism, "completions": completions, "backoffLimit": 0, "template": template} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


def test_a_stateful_set_whose_ordinals_move_has_both_ranges_for_a_while(acme: Acme):
    acme.limit("pods", "6")
    db = runs(WAITS, workload("db", 4, {"cpu": "1m"}, "StatefulSet"), seconds_to_end=5)
    is_answered(lambda: acme.create(db), "granted")
    eventually(lambda: acme.status("StatefulSet", "db").get("readyReplicas") == 4)
    is_answered(lambda: acme.patch("StatefulSet", "db", MOVE), "exceeded workspace quota")
    acme.limit("pods", "8")
    acme.patch("StatefulSet", "db", MOVE)
    there: list[set[str]] = []
    told: set[int] = set()

    def has_moved() -> bool:
        there.append(acme.exist("Pod"))
        told.add(acme.told("pods", "used", "reserved"))
        return there[-1] == {f"db-{number}" for number in range(4, 8)}

    eventually(has_moved)
    assert max(map(len, there)) == 8, "the limit of six would have been passed"
    assert max(told) == parse("8"), "what is being deleted is counted once"


def test_claims_of_a_job_s_ephemeral_volumes_stay_as_long_as_its_finished_pods(acme: Acme):
    """Two pods at a time, five in all: each leaves its claim of 5Gi."""
    for number in range(5):
        acme.api.create(volume(number))
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "5Gi"}}}
    made = job("pass", 2, 5)
    made["spec"]["template"]["spec"]["volumes"] = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    ]
    acme.limit("requests.storage", "15Gi")
    is_answered(lambda: acme.create(made), "exceeded workspace quota")
    acme.limit("requests.storage", "25Gi")
    acme.create(made)
    eventually(lambda: acme.status("Job", "train").get("succeeded") == 5, lambda: acme.status("Job", "train"))
    assert len(acme.exist("PersistentVolumeClaim")) == 5
    eventually(lambda: acme.told("requests.storage", "used") == parse("25Gi"))


def volume(number: int) -> Tree:
    """A folder of the node."""
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"/var/lib/scratch-{number}", "type": "DirectoryOrCreate"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"scratch-{number}"}, "spec": spec}


def test_an_elastic_job_that_shrinks_has_done_none_of_what_it_no_longer_asks_for(acme: Acme):
    """Its last two indexes are done. It goes on with the first four, none of which is."""
    acme.limit("requests.cpu", "60m")
    made = job(ENDS_BUT_THE_FIRST_FOUR, 6, 6, completionMode="Indexed")
    acme.create(made)

    def status() -> Tree:
        return acme.status("Job", "train")

    def goes_on() -> None:
        acme.patch("Job", "train", {"spec": {"suspend": False, "parallelism": 4, "completions": 4}})

    eventually(lambda: status().get("completedIndexes") == "4,5", status)
    acme.patch("Job", "train", {"spec": {"suspend": True}})
    eventually(lambda: not status().get("active"), status)
    acme.limit("requests.cpu", "30m")
    eventually(lambda: acme.told("requests.cpu", "used", "reserved") == 0)
    is_answered(goes_on, "largest allowed parallelism: 3")
    acme.limit("requests.cpu", "40m")
    goes_on()
    eventually(lambda: status().get("active") == 4, status)
    eventually(lambda: acme.told("requests.cpu", "used", "reserved") == parse("40m"))

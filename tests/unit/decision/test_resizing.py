"""A pod that is resized in place is charged with what it takes besides, until it is seen as it is then."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake.admission import read
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.model import (
    Decision,
    Fetch,
    Growth,
    NeedsFetch,
    Refusal,
    Request,
    Requester,
    Resize,
    Template,
    Unreadable,
    Verdict,
    WorkloadRef,
)
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import Enlisted, GrowthPolicy, NotYet, Policies, Refused
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import object_readers
from extauthz.testing import Asker, Snapshot, admission, owned_by, patch, path, quota, scale, workload
from tests.unit.asking import adopt, told

Tree = Any
CPU = 10**9
REF = WorkloadRef(*PODS, "team-a", "a")


def pod(
    cpu: str, version: str = "5", *, name: str = "a", held: str = "", owner: str = "web-1", limit: str = ""
) -> Tree:
    """As an API server shows it: it asks for ``cpu``, and runs with ``held``."""
    resources = {"requests": {"cpu": cpu}} | ({"limits": {"cpu": limit}} if limit else {})
    running = [{"name": "c", "resources": {"requests": {"cpu": held}}}] if held else []
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": {"app": "web"},
            "ownerReferences": owned_by(owner, kind="ReplicaSet") if owner else [],
        },
        "spec": {"containers": [{"name": "c", "resources": resources}]},
        "status": {"containerStatuses": running},
    }


def gate(*pods: Tree, hard: str = "5", policy: Policy | None = None, mode: str = "Enforce") -> Gate:
    """A Deployment of two pods of one CPU, its ReplicaSet, and pods as they are. Its quota goes by the Deployment."""
    one = workload("web", 2, {"cpu": "1"}, labels={"tier": "front"})
    its = workload("web-1", 2, {"cpu": "1"}, kind="ReplicaSet", ownerReferences=owned_by("web"))
    its["spec"]["selector"]["matchLabels"] = its["metadata"]["labels"] = {"app": "web"}
    found = [object_readers.pod(item) for item in pods]
    made = Gate(policy)
    limits = {"requests.cpu": hard, "pods": "2", "count/pods": "2"}
    made.load_quotas(QuotaTree.build([quota("acme", limits, workloads={"tier": "front"}, mode=mode)]), 0.0)
    state = Snapshot({"team-a": {"workspace": "acme"}}, [observe(one), observe(its), *(pod for pod in found if pod)])
    made.load_state(state, 0.0)
    return made


class Resizer:
    """Asks what an API server would ask."""

    def __init__(self, asked: Gate) -> None:
        self.gate, self.count, self.now_s = asked, 0, 0.0

    def __call__(
        self, new: Tree, old: Tree, *, by: Requester | None = None, sub: str = "resize", **request: Any
    ) -> Decision:
        self.count += 1
        resource = {"group": "", "version": "v1", "resource": "pods"}
        body = json.dumps(admission(new, old, subresource=sub, resource=resource, **request)).encode()
        review = read(body)
        return self.gate.decide(review.question.reading, f"d{self.count}", self.now_s, requester=by)

    def see(self, tree: Tree) -> None:
        found = object_readers.pod(tree)
        assert found is not None
        assert self.gate.observe(*found)


def charged(asked: Gate, key: str = "requests.cpu", of: str = "acme") -> float:
    row = next(row for row in asked.usage() if (row.quota, row.resource) == (of, key))
    return (row.used + row.reserved) / CPU


PODS_OF_WEB = (pod("1"), pod("1", name="b"))


def test_what_fits_is_charged_until_the_pod_is_seen():
    ask = Resizer(gate(*PODS_OF_WEB))
    decision = ask(pod("4"), pod("1"))
    assert (decision.verdict, decision.reason, decision.ref) == (Verdict.ALLOW, "fits", REF)
    assert (decision.replicas, decision.replicas_before) == (None, None)
    assert charged(ask.gate) == 5
    assert (charged(ask.gate, "pods"), charged(ask.gate, "count/pods")) == (2, 2), "it is no further pod"
    ask.see(pod("4", "6", held="1"))
    assert charged(ask.gate) == 5
    assert ask.gate.ledger.pending_writes == 0
    assert len(list(ask.gate.ledger.workloads)) == 4, "nothing of it is kept"


def test_of_what_a_pod_has_nothing_yet_all_is_charged():
    ask = Resizer(gate(*PODS_OF_WEB))
    limits = quota("acme", {"requests.memory": "9Gi"}, workloads={"tier": "front"})
    ask.gate.load_quotas(QuotaTree.build([limits]), 0.0)
    larger = copy.deepcopy(pod("1"))
    larger["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    assert ask(larger, pod("1")).scale is False
    (row,) = ask.gate.usage()
    assert (row.used, row.reserved) == (0, 2**30 * CPU)


def test_what_does_not_fit_is_refused_with_the_sentence_and_charges_nothing():
    ask = Resizer(gate(*PODS_OF_WEB))
    decision = ask(pod("5"), pod("1"))
    assert (decision.verdict, decision.reason) == (Verdict.DENY, "exceeded-quota")
    assert decision.refusal is Refusal.WAITING_FOR_ROOM
    assert decision.sentence == (
        'pods "a" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=4, used: requests.cpu=2, '
        "limited: requests.cpu=5"
    )
    assert charged(ask.gate) == 2
    denied = ask(pod("9"), pod("1"))
    assert (denied.verdict, denied.refusal) == (Verdict.DENY, Refusal.EXCEEDS_HARD)


def test_in_a_line_a_pod_takes_no_place_and_no_count_of_it_fits():
    ask = Resizer(gate(*PODS_OF_WEB))
    limits = quota("acme", {"requests.cpu": "5"}, workloads={"tier": "front"}, turn_s=300)
    ask.gate.load_quotas(QuotaTree.build([limits]), 0.0)
    decision = ask(pod("5"), pod("1"))
    assert (decision.reason, decision.evidence.fits, decision.evidence.places) == ("exceeded-quota", None, ())


def test_one_after_the_other_is_charged_with_all_that_the_gate_has_not_seen():
    """The first has landed, as version 6; the watch is behind."""
    ask = Resizer(gate(*PODS_OF_WEB))
    assert ask(pod("2"), pod("1")).verdict is Verdict.ALLOW
    assert ask(pod("4", "6"), pod("2", "6")).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 5
    assert ask(pod("2", name="b"), pod("1", name="b")).verdict is Verdict.DENY
    ask.see(pod("2", "6"))
    assert charged(ask.gate) >= 5, "the second is still under way"
    ask.see(pod("4", "7"))
    assert (charged(ask.gate), ask.gate.ledger.pending_writes) == (5, 0)


def test_down_and_up_again_is_charged_although_the_gate_has_not_seen_it_go_down():
    ask = Resizer(gate(pod("4"), pod("1", name="b")))
    assert ask(pod("1"), pod("4")).verdict is Verdict.ALLOW
    assert ask(pod("4", "6"), pod("1", "6")).verdict is Verdict.DENY, "room for what it has, and for what it takes"
    ask.see(pod("1", "6"))
    assert ask(pod("4", "6"), pod("1", "6")).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 5


def test_what_holds_no_more_than_it_did_is_not_recorded():
    ask = Resizer(gate(*PODS_OF_WEB, hard="1"))
    decision = ask(pod("500m"), pod("1"))
    assert (decision.verdict, decision.pending_write) == (Verdict.ALLOW, None)
    assert "holds as much already" in decision.sentence
    back = ask(pod("1", "6"), pod("500m", "6", held="1"))
    assert (back.verdict, back.pending_write) == (Verdict.ALLOW, None), "the node has not given it back"


def infeasible(cpu: str, version: str, generation: int) -> Tree:
    """It runs with one CPU, and its node said of generation 2 that it can never do what is asked for."""
    made = pod(cpu, version, held="1")
    made["metadata"]["generation"] = generation
    never = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "observedGeneration": 2}
    made["status"]["conditions"] = [never]
    return made


def test_what_a_node_can_never_do_is_free_and_what_is_asked_for_in_its_place_is_not():
    ask = Resizer(gate(infeasible("64", "6", 2), pod("1", name="b")))
    assert charged(ask.gate) == 2
    assert ask(pod("3", name="b"), pod("1", name="b")).verdict is Verdict.ALLOW
    smaller = infeasible("3", "6", 3), infeasible("64", "6", 2)
    assert ask(*smaller).verdict is Verdict.DENY, "the node may well do this one"
    ask.see(pod("1", "7", name="b"))
    assert ask(*smaller).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 4
    ask.see(infeasible("3", "8", 3))
    assert (charged(ask.gate), ask.gate.ledger.pending_writes) == (4, 0), "the kubelet has not looked at it yet"


def test_another_resource_of_the_pod_counts_by_itself():
    ask = Resizer(gate(*PODS_OF_WEB))
    assert ask(pod("1", limit="9"), pod("1")).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 2


@pytest.mark.parametrize("version", ["4", "5", ""])
def test_an_older_or_the_same_version_ends_nothing(version: str):
    ask = Resizer(gate(*PODS_OF_WEB))
    ask(pod("4"), pod("1"))
    found = object_readers.pod(pod("1", version))
    assert found is not None
    ask.gate.observe(*found)
    assert charged(ask.gate) == 5


@pytest.mark.parametrize(("version", "left"), [("4", 1), ("", 1), ("6", 0)])
def test_a_pod_that_has_gone_takes_nothing(version: str, left: int):
    ask = Resizer(gate(*PODS_OF_WEB))
    ask(pod("4"), pod("1"))
    ask.gate.observe(REF, None, version=version)
    assert ask.gate.ledger.pending_writes == left


def test_what_is_never_seen_ends_with_its_window():
    ask = Resizer(gate(*PODS_OF_WEB))
    ask(pod("4"), pod("1"))
    after_s = ask.gate.policy.window_s + 1
    resizes = REF._replace(resource=RESIZES[1])
    assert ask.gate.ledger.pending.due(after_s - 2) == []
    ask.gate.tick(after_s)
    assert list(ask.gate.ledger.pending.due(after_s)) == [resizes]
    assert ask.gate.ledger.pending.read(resizes, after_s) == 1
    assert charged(ask.gate) == 2


def test_a_pod_of_nobody_is_charged_where_its_own_labels_say():
    lone = pod("1", owner="")
    lone["metadata"]["labels"]["tier"] = "front"
    ask = Resizer(gate(lone, hard="4"))
    new = copy.deepcopy(lone)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert ask(new, lone).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 4
    assert ask(pod("9"), pod("1")).verdict is Verdict.DENY


def test_a_pod_that_no_quota_covers_is_followed():
    ask = Resizer(gate(pod("1", owner="")))
    decision = ask(pod("9"), pod("1"))
    assert (decision.verdict, decision.reason) == (Verdict.ALLOW, "no-quota")
    ask.gate.observe_namespace("team-a", {})
    decision = ask(pod("9", "7"), pod("1", "7"))
    assert (decision.verdict, decision.evidence.afterwards) == (Verdict.ALLOW, True)


def test_a_pod_that_no_quota_covers_and_nobody_has_shown_counts_in_any_that_comes():
    ask = Resizer(gate())
    ask.gate.load_quotas(QuotaTree.build([]), 0.0)
    assert ask(pod("4"), pod("1")).evidence.afterwards
    teams = [quota(n, {"requests.cpu": "9"}, namespaces={"workspace": "acme"}, workloads={"x": n}) for n in "ab"]
    ask.gate.load_quotas(
        QuotaTree.build([*teams, quota("root", {"requests.cpu": "9"}, namespaces={"other": "1"})]), 1.0
    )
    assert [charged(ask.gate, of=name) for name in ("a", "b", "root")] == [3, 3, 0]
    ask.see(pod("1", owner=""))
    assert charged(ask.gate, of="a") == 3
    ask.see(pod("4", "6", owner=""))
    assert [charged(ask.gate, of=name) for name in "ab"] == [0, 0]


def test_a_pod_that_nobody_has_shown_is_looked_up():
    decision = Resizer(gate())(pod("2"), pod("1"))
    assert (decision.verdict, decision.reason) == (Verdict.UNAVAILABLE, "unknown-workload")
    assert decision.todo == NeedsFetch(Fetch.WORKLOAD, REF)


def test_dry_runs_and_audits_charge_nothing():
    ask = Resizer(gate(*PODS_OF_WEB))
    assert ask(pod("4"), pod("1"), dryRun=True).pending_write is None
    assert ask(pod("6"), pod("1"), dryRun=True).verdict is Verdict.DENY
    assert charged(ask.gate) == 2
    audits = Resizer(gate(*PODS_OF_WEB, policy=Policy(mode="audit")))
    decision = audits(pod("6"), pod("1"))
    assert (decision.verdict, decision.would) == (Verdict.ALLOW, Verdict.DENY)
    assert audits(pod("4"), pod("1")).pending_write is None
    of_quota = Resizer(gate(*PODS_OF_WEB, mode="Audit"))(pod("6"), pod("1"))
    assert (of_quota.verdict, len(of_quota.evidence.audit)) == (Verdict.ALLOW, 1)


def two_quotas(hard: str = "2") -> Resizer:
    """The Deployment's own quota, and another one that covers what has the label ``tier=back``."""
    ask = Resizer(gate(*PODS_OF_WEB))
    front = quota("acme", {"requests.cpu": "5"}, workloads={"tier": "front"})
    back = quota("back", {"requests.cpu": hard}, namespaces={"workspace": "acme"}, workloads={"tier": "back"})
    ask.gate.load_quotas(QuotaTree.build([front, back]), 0.0)
    return ask


def relabel(name: str = "web", resource: str = "deployments") -> Request:
    return patch(path(name, resource=resource), {"metadata": {"labels": {"tier": "back"}}})


def test_a_move_to_another_quota_waits_for_a_resize_that_may_land_after_it():
    """Else what the pod then holds comes to count where nobody asked for room."""
    ask = two_quotas()
    assert ask(pod("4"), pod("1")).verdict is Verdict.ALLOW
    move = Asker(ask.gate, "move")
    waits = move(relabel())
    assert waits.reason == "move-waits"
    assert "changes of its pods or members may still land; try again in about" in waits.sentence
    assert move(scale("web", 1)).verdict is Verdict.ALLOW, "a count waits for nothing"
    ask.see(pod("4", "6"))
    assert move(relabel()).verdict is Verdict.DENY, "two pods and what one of them holds more"
    assert charged(ask.gate, of="back") == 0


def test_where_no_quota_is_yet_a_resize_counts_where_its_workload_may_have_moved():
    ask = two_quotas()
    quotas = ask.gate.ledger.coverage.tree
    ask.gate.load_quotas(QuotaTree.build([]), 0.0)
    assert ask(pod("4"), pod("1")).verdict is Verdict.ALLOW
    assert Asker(ask.gate, "move")(relabel()).verdict is Verdict.ALLOW
    ask.gate.load_quotas(quotas, 0.0)
    assert charged(ask.gate, of="back") == 5, "two pods, and what one of them may come to hold more"


def test_a_move_of_something_else_does_not_wait():
    ask = two_quotas()
    ask.gate.observe(*observe(workload("other", 1, {"cpu": "1"})))
    assert ask(pod("4"), pod("1")).verdict is Verdict.ALLOW
    assert Asker(ask.gate, "move")(relabel("other")).verdict is Verdict.ALLOW
    ask.gate.observe(REF, None)
    assert Asker(ask.gate, "gone")(relabel()).reason == "exceeded-quota", "what was to be resized has gone"


def test_a_change_that_moves_nothing_does_not_wait_for_a_resize():
    ask = two_quotas()
    assert ask(pod("4"), pod("1")).verdict is Verdict.ALLOW
    cheaper = patch(path("web"), {"spec": {"template": {"spec": {"priorityClassName": "low"}}}})
    assert Asker(ask.gate, "change")(cheaper).verdict is Verdict.ALLOW


def test_a_resize_is_charged_where_a_move_that_is_under_way_may_bring_it():
    ask = two_quotas()
    assert Asker(ask.gate, "move")(relabel()).verdict is Verdict.ALLOW
    assert ask(pod("2"), pod("1")).verdict is Verdict.DENY


def test_a_resize_is_charged_where_an_owner_that_may_be_set_free_counts():
    ask = two_quotas(hard="4")
    free = patch(path("web-1", resource="replicasets"), {"metadata": {"labels": {"tier": "back", "app": "api"}}})
    assert Asker(ask.gate, "free")(free).verdict is Verdict.ALLOW
    assert charged(ask.gate, of="back") == 4, "with those that the Deployment makes in their place"
    refused = ask(pod("2"), pod("1"))
    assert [(row.quota, row.resource) for row in refused.evidence.shortages] == [("back", "requests.cpu")]


def test_a_resize_is_not_charged_by_the_labels_of_what_its_root_covers():
    ask = two_quotas(hard="1")
    its = workload("web-1", 2, {"cpu": "1"}, kind="ReplicaSet", ownerReferences=owned_by("web"), version="2")
    its["metadata"]["labels"] = {"app": "web", "tier": "back"}
    its["spec"]["selector"]["matchLabels"] = {"app": "web"}
    ask.gate.observe(*observe(its))
    assert ask(pod("4"), pod("1")).verdict is Verdict.ALLOW
    assert charged(ask.gate, of="back") == 0


def test_who_is_not_bound_is_not_refused_and_charged_all_the_same():
    ask = Resizer(gate(*PODS_OF_WEB))
    bound = {"include": {"users": ["autoscaler"]}}
    ask.gate.load_quotas(
        QuotaTree.build([quota("acme", {"requests.cpu": "5"}, workloads={"tier": "front"}, requesters=bound)]), 0.0
    )
    decision = ask(pod("9"), pod("1"), by=Requester("person"))
    assert (decision.verdict, decision.reason) == (Verdict.ALLOW, "not-bound")
    assert charged(ask.gate) == 10
    second = pod("2", name="b"), pod("1", name="b")
    assert ask(*second, by=Requester("autoscaler")).verdict is Verdict.DENY
    assert ask(*second).verdict is Verdict.DENY, "who is not known is bound"


def test_growth_waits_during_a_hold_and_less_does_not():
    ask = Resizer(gate(*PODS_OF_WEB))
    ask.gate.hold(60.0)
    assert ask(pod("2"), pod("1")).reason == "hold"
    assert ask(pod("500m"), pod("1")).verdict is Verdict.ALLOW
    ask.gate.release()
    ask.gate.stale("a watch is silent")
    assert ask(pod("2"), pod("1")).reason == "stale"
    assert ask(pod("500m"), pod("1")).verdict is Verdict.ALLOW


def test_where_quotas_or_labels_are_not_known_it_waits():
    ask = Resizer(gate(*PODS_OF_WEB))
    ask.gate.state_synced(False)
    assert ask(pod("2"), pod("1")).reason == "unsynced"
    ask.gate.state_synced(True)
    ask.gate.observe_namespace("team-a", {})
    ask.gate.stale("a watch is silent")
    assert ask(pod("2"), pod("1")).reason == "stale", "a quota may have come to cover the namespace"


def test_those_of_one_pod_that_may_still_land_are_bounded():
    ask = Resizer(gate(*PODS_OF_WEB, policy=Policy(max_intents_per_workload=2)))
    reasons = [ask(pod(cpu, "5"), pod("1")).reason for cpu in ("2", "3", "4")]
    assert reasons == ["fits", "fits", "too-many-intents"]


def of_rollout(cpu: str, name: str = "a") -> Tree:
    made = pod(cpu, name=name)
    made["metadata"]["ownerReferences"] = [{**owned_by("x", kind="Rollout")[0], "apiVersion": "example.com/v1"}]
    return made


@pytest.mark.parametrize("how", ["resized", "made"])
def test_a_pod_that_prices_its_custom_resource_reprices_every_replica(how: str):
    ask = Resizer(Gate())
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    ask.gate.load_state(Snapshot({"team-a": {"workspace": "acme"}}, []), 0.0)
    ask.gate.observe_kind("example.com", "Rollout", "rollouts")
    ref, price = WorkloadRef("example.com", "rollouts", "team-a", "x"), observe(workload("x", 3, {"cpu": "1"}))[1]
    ask.gate.observe(ref, replace(price, by_pods=True, selector="app=web"))
    ask.see(of_rollout("1"))
    assert charged(ask.gate) == 3

    def dearer(cpu: str) -> Decision:
        if how == "resized":
            return ask(of_rollout(cpu), of_rollout("1"))
        made = of_rollout(cpu, "b")
        return ask(made, made, sub="", operation="CREATE", oldObject=None)

    assert dearer("4").reason == "exceeded-quota"
    assert (dearer("3").verdict, charged(ask.gate)) == (Verdict.ALLOW, 9)


def test_what_a_resize_says_of_its_status_is_not_looked_at():
    """The API server keeps the status that there is (``podResizeStrategy``)."""
    ask = Resizer(gate(*PODS_OF_WEB))
    assert ask(pod("500m", held="9"), pod("1")).verdict is Verdict.ALLOW
    assert charged(ask.gate) == 2


def test_what_costs_nobody_knows_what_is_not_decided():
    known = Template(b'{"template":{"spec":{"containers":[]}}}')
    odd = Template(b'{"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"x"}}}]}}}')
    decision = gate(*PODS_OF_WEB).decide(Resize(REF, known, odd, "5", False), "d1", 0.0)
    assert (decision.verdict, decision.reason, decision.ref) == (Verdict.UNAVAILABLE, "bad-quantity", REF)


def test_another_gate_adopts_it():
    ask = Resizer(gate(*PODS_OF_WEB))
    ask(pod("4"), pod("1"))
    later = gate(*PODS_OF_WEB)
    adopt(later, told(ask.gate))
    assert charged(later) == 5
    again = Resizer(later)
    again.see(pod("4", "6"))
    assert (charged(later), later.ledger.pending_writes) == (5, 0)
    assert later.ledger.drift() == {}


# Reading.


@pytest.mark.parametrize(
    "change",
    [
        lambda new, old, more: old["metadata"].pop("resourceVersion"),
        lambda new, old, more: old["metadata"].update(name="b"),
        lambda new, old, more: new["spec"].update(containers="c"),
        lambda new, old, more: old.update(status=1),
        lambda new, old, more: more.update(dryRun=1),
        lambda new, old, more: more.update(object=3),
    ],
)
def test_what_is_no_resize_of_a_stored_pod_is_unreadable(change: Any):
    new, old, more = pod("2"), pod("1"), dict[str, Any]()
    given = {"resource": {"group": "", "version": "v1", "resource": "pods"}, "name": "a", "namespace": "team-a"}
    change(new, old, more)
    review = read(json.dumps(admission(new, old, subresource="resize", **(given | more))).encode())
    found = review.question.reading
    assert isinstance(found, Unreadable)
    assert found.ref == REF


class Refuses(GrowthPolicy):
    """Refuses, or holds, what it is asked, which it keeps."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.asked: list[Growth] = []

    def filter(self, growth: Growth) -> Refused | None:
        self.asked.append(growth)
        return Refused("no") if self._at == "filter" else None

    def permit(self, growth: Growth) -> NotYet | None:
        return NotYet("later", 9.0) if self._at == "permit" else None


@pytest.mark.parametrize(("at", "reason"), [("filter", "policy-refused"), ("permit", "policy-not-yet")])
def test_policies_are_asked_about_what_it_adds(at: str, reason: str):
    one = Refuses(at)
    ask = Resizer(gate(*PODS_OF_WEB))
    ask.gate.enlist(Policies([Enlisted("one", one)]))
    assert ask(pod("2"), pod("1")).reason == reason
    growth = one.asked[0]
    assert (growth.ref, growth.operation, growth.before, growth.to) == (REF, "resize", 1, 1)
    assert growth.rises == {"requests.cpu": CPU}
    assert ask(pod("500m"), pod("1")).verdict is Verdict.ALLOW
    assert len(one.asked) == 1

"""Queries: what they show is what a decision goes by, and asking changes nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import State
from extauthz.core.model import OwnerRef, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Ceiling, Headroom, Queries
from extauthz.core.quota.spec import API_VERSION, KIND, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, put_scale, quota, scale, workload

CPU = 10**9
GPU = "requests.nvidia.com/gpu"
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "acme"}, "other": {"workspace": "other"}}
QUOTAS = [
    quota("corp", {"requests.cpu": "20"}, namespaces={"workspace": "corp"}),
    quota("acme", {"requests.cpu": "10", GPU: "4"}, parent="corp"),
    quota("gold", {"requests.cpu": "6"}, parent="acme", namespaces={"workspace": "acme"}, workloads={"tier": "gold"}),
    quota("other", {"requests.cpu": "9"}),
    quota("zulu", {"requests.cpu": "1"}, parent="corp", namespaces={"workspace": "nobody"}),
]


def asker(*objects: Any, quotas: list[Any] | None = None, policy: Policy | None = None) -> tuple[Asker, Queries]:
    ask = Asker(gate(QUOTAS if quotas is None else quotas, *objects, namespaces=NAMESPACES, policy=policy))
    return ask, Queries(ask.gate.ledger)


def names(found: Any) -> list[str]:
    return [one.ref.name for one in found]


class TestQuotas:
    def test_a_list_goes_on_after_a_quota(self):
        _, queries = asker()
        assert [one.node.quota.name for one in queries.quotas(after="acme")] == ["gold", "zulu", "other"]
        assert [one.node.quota.name for one in queries.quotas("acme", after="acme")] == ["gold"]
        assert list(queries.quotas(after="nobody")) == []

    def test_each_is_shown_with_used_reserved_and_hard_after_its_parent(self):
        ask, queries = asker(workload("web", 2), workload("api", 1, namespace="other"))
        ask(scale("web", 5))
        shown = {one.node.quota.name: [(row.resource, row.used, row.reserved) for row in one.rows] for one in
                 queries.quotas()}  # fmt: skip

        assert list(shown) == ["corp", "acme", "gold", "zulu", "other"]
        assert list(queries.rows()) == [row for one in queries.quotas() for row in one.rows]
        assert shown["corp"] == [("requests.cpu", 2 * CPU, 3 * CPU)]
        assert shown["acme"] == [("requests.cpu", 2 * CPU, 3 * CPU), (GPU, 0, 0)]
        assert shown["gold"] == [("requests.cpu", 0, 0)]
        assert shown["other"] == [("requests.cpu", CPU, 0)]

    def test_one_says_whom_it_covers_and_whether_it_selects_a_namespace(self):
        _, queries = asker(workload("web", 2), workload("api", 1, {"cpu": "odd"}))
        found = queries.quota("corp"), queries.quota("acme"), queries.quota("zulu")

        assert [(one.workloads, one.unpriced, one.selects_namespace) for one in found if one is not None] == [
            (2, 1, False),
            (2, 1, True),
            (0, 0, False),
        ]
        assert queries.quota("nobody") is None

    def test_below_one_stands_its_own_part_of_the_tree(self):
        _, queries = asker()

        assert [one.node.quota.name for one in queries.quotas("corp")] == ["corp", "acme", "gold", "zulu"]
        assert [one.node.quota.name for one in queries.quotas("acme")] == ["acme", "gold"]
        assert [one.node.quota.name for one in queries.quotas("zulu")] == ["zulu"]
        assert list(queries.quotas("nobody")) == []

    def test_others_that_come_into_force_meanwhile_are_not_mixed_in(self):
        ask, queries = asker(workload("web", 2))
        shown = queries.quotas()
        assert queries.quota("acme") is not None
        assert next(shown).node.quota.name == "corp"
        ask.gate.load_quotas(QuotaTree.build([quota("new", {"pods": "1"})]), 0.0)

        assert {one.node.quota.name: one.rows[0].used for one in shown}["acme"] == 2 * CPU
        assert [one.node.quota.name for one in queries.quotas()] == ["new"]
        assert queries.quota("acme") is None

    def test_one_tells_the_labels_of_the_namespaces_that_it_selects_itself(self):
        _, queries = asker()
        acme, corp = queries.quota("acme"), queries.quota("corp")
        assert corp is not None
        assert all("workspace" in labels for labels in queries.selected(acme).values())
        assert queries.selected(acme).keys() == set(acme.namespaces) != set()
        assert queries.selected(corp) == {}
        assert queries.own_namespaces("acme") == acme.namespaces
        assert queries.own_namespaces("nobody") == ()

    def test_what_is_odd_of_them_is_told(self):
        _, queries = asker(quotas=[quota("a", {"pods": "1"}), quota("b", {"pods": "2"}, parent="a")])

        assert [warning.quota for warning in queries.tree_warnings()] == ["b"]

    def test_a_namespace_that_is_relabelled_or_goes_is_selected_no_more(self):
        ask, queries = asker()

        def selecting() -> set[str]:
            return {one.node.quota.name for one in queries.quotas() if one.selects_namespace}

        assert selecting() == {"acme", "gold", "other"}
        ask.gate.observe_namespace("other", {"workspace": "acme"})
        assert selecting() == {"acme", "gold"}
        for name in ("team-a", "other"):
            ask.gate.observe_namespace(name, None)
        assert selecting() == {"acme", "gold"}
        ask.gate.observe_namespace("team-b", None)
        assert selecting() == set()


class TestWorkloads:
    def test_who_uses_a_resource_of_a_quota(self):
        large, small = ({GPU.removeprefix("requests."): count} for count in ("2", "1"))
        _, queries = asker(
            workload("small", 1, small),
            workload("large", 1, large, namespace="team-b"),
            workload("none", 3),
            workload("others", 1, small, namespace="other"),
        )
        users = sorted(queries.workloads("acme"), key=lambda one: -one.used.get(GPU, 0))

        assert [(one.ref.name, one.used.get(GPU, 0) // CPU) for one in users] == [
            ("large", 2), ("small", 1), ("none", 0),
        ]  # fmt: skip
        assert sorted(names(queries.workloads("corp"))) == ["large", "none", "small"]
        assert names(queries.workloads("zulu")) == names(queries.workloads("nobody")) == []

    def test_one_is_charged_with_what_it_covers_and_with_what_pends(self):
        of_web = workload("web-1", 3, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
        ask, queries = asker(workload("web", 2), of_web)
        ask(scale("web", 5))
        (found,) = queries.workloads("acme")

        assert (found.ref, found.replicas, found.used["requests.cpu"]) == (WEB, 2, 2 * CPU)
        assert (found.reserved, found.is_priced) == ({"requests.cpu": 3 * CPU, "pods": 3 * CPU, "count/pods": 3 * CPU},
                                                     True)  # fmt: skip
        assert queries.workload(WorkloadRef("apps", "replicasets", "team-a", "web-1")) == found
        assert queries.workload(WEB._replace(name="nobody")) is None

    def test_one_that_may_come_to_count_by_a_pending_change_of_labels_is_listed(self):
        ask, queries = asker(workload("web", 2), workload("api", 1))
        assert names(queries.workloads("gold")) == []
        relabels = patch(path("web"), {"metadata": {"labels": {"tier": "gold"}}})
        assert ask(relabels).verdict is Verdict.ALLOW

        assert names(queries.workloads("gold")) == ["web"]

    def test_a_custom_resource_counts_by_itself_whoever_owns_it(self):
        ask, queries = asker(workload("web", 2))
        _, seen = observe(workload("thing", 1))
        seen.owner = OwnerRef("apps", "Deployment", "web", "uid-web")
        ask.gate.observe(WorkloadRef("example.com", "things", "team-a", "thing"), seen)

        assert sorted(names(queries.workloads("acme"))) == ["thing", "web"]

    def test_one_whose_cost_is_not_known_says_so(self):
        _, queries = asker(workload("web", 2, {"cpu": "odd"}))

        assert [one.is_priced for one in queries.workloads("acme")] == [False]

    def test_the_newest_state_is_at_hand(self):
        ask, queries = asker(workload("web", 2))
        ask(create(workload("new", 1)))

        assert queries.observed(WEB) == observe(workload("web", 2))[1]
        assert queries.observed(WEB._replace(name="new")) is None, "it was never seen"
        assert queries.workload(WEB._replace(name="new")) is not None, "but it pends"
        assert queries.observed(WEB._replace(name="nobody")) is None


def stateful(replicas: int) -> dict[str, Any]:
    made = workload("web", replicas, kind="StatefulSet")
    claim = {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1"}}}}
    made["spec"]["volumeClaimTemplates"] = [claim]
    return made


REPLICA_SET = workload("web-1", 2, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
DEARER = REPLICA_SET | {"spec": REPLICA_SET["spec"] | {"template": pod({"cpu": "2"})}}


class TestHeadroom:
    @pytest.mark.parametrize(
        ("objects", "policy"),
        [
            pytest.param([workload("web", 2)], None, id="a-deployment"),
            pytest.param([workload("web", 2), REPLICA_SET], None, id="with-its-replica-set"),
            pytest.param([workload("web", 2), DEARER], None, id="with-a-dearer-revision"),
            pytest.param([workload("web", 2), workload("api", 5)], None, id="beside-another"),
            pytest.param([workload("web", 2)], Policy(window_s=90.0, charge_surge=True), id="charged-with-its-surge"),
            pytest.param([stateful(2)], None, id="with-claims"),
        ],
    )
    def test_it_is_what_a_decision_would_grant_and_no_more(self, objects: list[Any], policy: Policy | None):
        quotas = [quota("acme", {"requests.cpu": "12", "requests.storage": "7"})]
        ask, queries = asker(*objects, quotas=quotas, policy=policy)
        resource = "statefulsets" if objects[0]["kind"] == "StatefulSet" else "deployments"
        ref = WEB._replace(resource=resource)
        room = queries.headroom(ref)
        assert room.replicas is not None

        assert ask(scale("web", room.replicas, resource=resource), charge=False).verdict is Verdict.ALLOW
        denied = ask(scale("web", room.replicas + 1, resource=resource), charge=False)
        assert denied.verdict is Verdict.DENY
        assert denied.evidence.shortages[0] == room.bound

    def test_what_pends_takes_room_from_others_and_leaves_its_own(self):
        ask, queries = asker(workload("web", 2), workload("api", 1))
        assert ask(scale("web", 6)).verdict is Verdict.ALLOW

        assert [queries.headroom(ref).replicas for ref in (WEB, WEB._replace(name="api"))] == [9, 4]

    def test_over_its_limit_a_workload_may_keep_what_it_has(self):
        _, queries = asker(workload("web", 12, version="7"))
        room = queries.headroom(WEB)

        assert (room.replicas, room.bound.quota, room.observed, room.version) == (12, "acme", 12, "7")

    def test_a_create_that_pends_has_room_too(self):
        ask, queries = asker()
        ask(create(workload("web", 3)))

        assert queries.headroom(WEB)[:4:2] == (10, 0)

    def test_a_quota_that_only_audits_says_what_it_would_allow(self):
        quotas = [quota("acme", {"requests.cpu": "5"}, mode="Audit")]
        _, queries = asker(workload("web", 2), quotas=quotas)
        found = queries.headroom(WEB)
        assert (found.replicas, found.bound, found.audited) == (None, None, 5)
        assert (found.audits.quota, found.audits.hard) == ("acme", 5 * CPU)

    def test_beside_a_quota_that_refuses_one_that_audits_counts_where_it_would_allow_less(self):
        both = [
            quota("acme", {"requests.cpu": "5"}, mode="Audit"),
            quota("all", {"requests.cpu": "8"}, namespaces={}),
        ]
        _, queries = asker(workload("web", 2), quotas=both)
        found = queries.headroom(WEB)
        assert (found.replicas, found.audited) == (8, 5)
        turned = [
            quota("acme", {"requests.cpu": "8"}, mode="Audit"),
            quota("all", {"requests.cpu": "5"}, namespaces={}),
        ]
        _, queries = asker(workload("web", 2), quotas=turned)
        found = queries.headroom(WEB)
        assert (found.replicas, found.audited, found.audits) == (5, None, None)

    def test_where_one_that_audits_is_over_it_would_allow_no_more_than_there_is(self):
        _, queries = asker(workload("web", 2), quotas=[quota("acme", {"requests.cpu": "1"}, mode="Audit")])
        found = queries.headroom(WEB)
        assert found.audited == 2

    @pytest.mark.parametrize(
        "quotas",
        [
            pytest.param([quota("acme", {"requests.cpu": "9999999999"}, mode="Audit")], id="it-only-audits-a-lot"),
            pytest.param([quota("acme", {"limits.cpu": "3"})], id="nothing-that-it-limits"),
            pytest.param([quota("else", {"requests.cpu": "3"})], id="it-covers-others"),
        ],
    )
    def test_where_no_quota_sets_a_bound_there_is_none(self, quotas: list[Any]):
        _, queries = asker(workload("web", 2), quotas=quotas)

        assert queries.headroom(WEB) == Headroom(None, None, 2, "1", True)

    def test_what_rests_on_an_unknown_cost_is_not_certain(self):
        _, queries = asker(
            workload("web", 2), workload("odd", 1, {"cpu": "odd"}), workload("api", 1, namespace="other")
        )

        known = [queries.headroom(ref).is_certain for ref in (WEB, WEB._replace(name="odd"))]
        assert known == [False, False]
        assert queries.headroom(WEB._replace(namespace="other", name="api")).is_certain

    def test_of_a_workload_that_is_not_known_there_is_none(self):
        _, queries = asker()

        assert queries.headroom(WEB) is None

    def test_asking_changes_nothing(self):
        ask, queries = asker(workload("web", 2), REPLICA_SET)
        before = [one[1:] for one in queries.quotas()]
        queries.headroom(WEB)
        list(queries.workloads("acme"))
        list(queries.pending())

        assert [one[1:] for one in queries.quotas()] == before
        assert (ask.gate.ledger.drift(), queries.pending_count, queries.workload_count) == ({}, 0, 2)


def test_writes_that_pend_are_shown_in_all_or_of_one_quota():
    ask, queries = asker(workload("web", 2), workload("api", 1, namespace="other"))
    grown, other = ask(scale("web", 5)), ask(put_scale("api", 2, namespace="other"))
    changed = ask(patch(path("web"), {"metadata": {"labels": {"a": "b"}}}))
    shown = {one.id: (ref.name, one.replicas, one.touches, one.state, one.expires_s) for ref, one in queries.pending()}

    assert shown == {
        grown.id: ("web", 5, False, State.OPEN, 90.0),
        other.id: ("api", 2, False, State.OPEN, 90.0),
        changed.id: ("web", 2, True, State.OPEN, 90.0),
    }
    assert [one.id for _, one in queries.pending("corp")] == [grown.id, changed.id]
    assert [one.id for _, one in queries.pending("other")] == [other.id]
    assert list(queries.pending("nobody")) == []
    assert (queries.pending_count, queries.quota_count) == (3, 5)


def test_names_and_namespaces_of_quotas_cost_no_account():
    queries = Queries(gate(QUOTAS, workload("web", 1), namespaces=NAMESPACES).ledger)
    assert list(queries.names()) == ["corp", "acme", "gold", "zulu", "other"]
    assert list(queries.names("acme")) == ["acme", "gold"]
    assert list(queries.names("nobody")) == []
    assert sorted(queries.namespaces("corp")) == ["team-a", "team-b"]
    assert queries.namespaces("nobody") == []


def test_where_a_workload_counts():
    queries = Queries(gate(QUOTAS, workload("web", 1), namespaces=NAMESPACES).ledger)
    assert [name for name in queries.names() if queries.counts_in(WEB, name)] == ["corp", "acme"]
    assert queries.quotas_of(WEB) == ["corp", "acme"]
    assert queries.quotas_of(WEB._replace(name="nobody")) == []
    assert not queries.counts_in(WEB, "nobody")
    assert not queries.counts_in(WEB._replace(name="nobody"), "acme")


class Counted(tuple):
    """Counts items that are looked at, one by one or in a row."""

    looked = 0

    def __getitem__(self, place):
        Counted.looked += 1
        return super().__getitem__(place)

    def __iter__(self):
        Counted.looked += len(self)
        return super().__iter__()


@pytest.mark.parametrize("below", [None, "q0000"])
def test_a_page_costs_what_is_on_it_wherever_in_the_list_it_is(below: str | None):
    """100,000 quotas come in a hundred pages: were each to begin at the first quota, the last would cost most."""
    quotas = [quota(f"q{n:04}", {"pods": "1"}, parent="q0000" if n else None) for n in range(2_000)]
    known = gate(quotas)
    queries = Queries(known.ledger)
    queries.quota("q0000")  # names are made once a tree
    known.ledger.coverage.tree.nodes = Counted(known.ledger.coverage.tree.nodes)
    Counted.looked = 0
    page = [use.node.quota.name for use in islice(queries.quotas(below, "q1899"), 100)]
    assert page == [f"q{n}" for n in range(1_900, 2_000)]
    assert Counted.looked <= 100


def test_a_list_below_a_quota_goes_on_after_any_other():
    queries = Queries(gate(QUOTAS, namespaces=NAMESPACES).ledger)
    for after, names in (("corp", ["acme", "gold"]), ("acme", ["gold"]), ("gold", []), ("other", []), ("gone", [])):
        assert [use.node.quota.name for use in queries.quotas("acme", after)] == names


class TestCeilings:
    """How many replicas a workload may ever have, whatever others use."""

    LONE = workload("web", 1, {"cpu": "2"})

    def test_the_tightest_of_all_limits_above_it_is_told(self):
        _, queries = asker(self.LONE, workload("api", 4))
        assert queries.ceiling(WEB, 5) is None
        assert queries.ceiling(WEB, 24) == Ceiling(5, "acme", "requests.cpu", 48 * CPU, 10 * CPU)

    @pytest.mark.parametrize("hard", ["1", "2", "3", "7", "8"])
    def test_so_many_are_granted_to_one_that_is_alone_and_no_more(self, hard: str):
        one = workload("web", 0, {"cpu": "2"})
        ask, queries = asker(one, quotas=[quota("acme", {"requests.cpu": hard})])
        found = queries.ceiling(WEB, 9)
        assert ask(put_scale("web", found.fits + 1)).verdict is Verdict.DENY
        assert ask(put_scale("web", found.fits)).verdict is Verdict.ALLOW

    def test_quotas_that_refuse_nobody_or_only_some_are_left_out(self):
        some = {"include": {"users": ["jane"]}}
        audits = quota("acme", {"requests.cpu": "3"}, mode="Audit")
        binds = quota("some", {"requests.cpu": "2"}, namespaces={"workspace": "acme"}, requesters=some)
        _, queries = asker(self.LONE, quotas=[audits, binds])
        assert queries.ceiling(WEB, 24) is None

    def test_what_is_kept_for_siblings_is_out_of_reach_and_what_is_guaranteed_is_not(self):
        tree = [
            quota("root", {"requests.cpu": "8"}, namespaces={"workspace": "nobody"}),
            quota("acme", {"requests.cpu": "8"}, parent="root", guaranteed={"requests.cpu": "2"}),
            quota("other", {"requests.cpu": "8"}, parent="root", guaranteed={"requests.cpu": "4"}),
        ]
        ask, queries = asker(workload("web", 0), quotas=tree)
        assert queries.ceiling(WEB, 4) is None
        assert queries.ceiling(WEB, 5) == Ceiling(4, "root", "requests.cpu", 5 * CPU, 4 * CPU)
        assert ask(put_scale("web", 5)).verdict is Verdict.DENY
        assert ask(put_scale("web", 4)).verdict is Verdict.ALLOW

    def test_where_too_much_is_guaranteed_ones_own_is_within_reach(self):
        tree = [
            quota("root", {"requests.cpu": "8"}, namespaces={"workspace": "nobody"}),
            quota("acme", {"requests.cpu": "8"}, parent="root", guaranteed={"requests.cpu": "6"}),
            quota("other", {"requests.cpu": "8"}, parent="root", guaranteed={"requests.cpu": "6"}),
        ]
        ask, queries = asker(workload("web", 0), quotas=tree)
        assert queries.ceiling(WEB, 9).fits == 6
        assert ask(put_scale("web", 6)).verdict is Verdict.ALLOW

    def test_a_higher_limit_that_comes_next_or_comes_back_counts(self):
        override = {"name": "launch", "from": "2027-02-01T00:00:00Z", "until": "2027-03-01T00:00:00Z"}
        spec = {
            "namespaceSelector": {"matchLabels": {"workspace": "acme"}},
            "hard": {"requests.cpu": "10"},
            "overrides": [override | {"hard": {"requests.cpu": "20"}}],
        }
        made = parse({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "acme"}, "spec": spec})
        ask, queries = asker(self.LONE, quotas=[made])
        assert queries.ceiling(WEB, 10) is None
        assert queries.ceiling(WEB, 11).fits == 10
        low = replace(made, overrides=(made.overrides[0]._replace(hard={"requests.cpu": 2 * CPU}),))
        ask.gate.load_quotas(QuotaTree.build([low]), low.overrides[0].from_s + 60.0)
        assert queries.ceiling(WEB, 5) is None
        assert queries.ceiling(WEB, 6).fits == 5

    def test_where_it_cannot_be_told_nothing_is(self):
        _, queries = asker(
            self.LONE, workload("web", 1, kind="ReplicaSet", uid="uid-set", ownerReferences=owned_by("web"))
        )
        assert queries.ceiling(WEB._replace(name="gone"), 24) is None
        assert queries.ceiling(WEB._replace(resource="replicasets"), 24) is None
        assert queries.ceiling(WEB, 0) is None  # it will shrink

    def test_what_may_still_land_counts_and_what_does_not_grow_with_the_count_is_no_bound(self):
        ask, queries = asker(self.LONE, quotas=[quota("acme", {"requests.cpu": "10", "count/deployments.apps": "0"})])
        assert queries.ceiling(WEB, 24) == Ceiling(5, "acme", "requests.cpu", 48 * CPU, 10 * CPU)
        assert queries.ceiling(WEB, 5) is None
        assert ask(patch(path(), {"spec": {"template": pod({"cpu": "3"})}})).verdict is Verdict.ALLOW
        assert queries.ceiling(WEB, 24) == Ceiling(3, "acme", "requests.cpu", 72 * CPU, 10 * CPU)

    def test_what_costs_nothing_of_a_key_is_not_bound_by_it(self):
        _, queries = asker(self.LONE, quotas=[quota("acme", {GPU: "0"})])
        assert queries.ceiling(WEB, 24) is None

"""The quota tree: matching against a naive oracle, order, ancestors, and what makes no tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz import testing
from extauthz.core.quota.selectors import LabelSelector, Requirement
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree, QuotaTreeError

CPU = 10**9
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["x", "y"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.builds(
    Requirement, KEYS, st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]), st.frozensets(VALUES, min_size=1)
)
SELECTORS = st.builds(
    LabelSelector, LABELS.map(lambda labels: tuple(labels.items())), st.lists(REQUIREMENTS, max_size=2).map(tuple)
)


@st.composite
def forests(draw) -> list[WorkspaceQuota]:
    """Quotas in any order, each with a parent among those of a lower number, or none."""
    quotas = [
        WorkspaceQuota(
            name=f"q{at}",
            parent=draw(st.sampled_from([None, *(f"q{above}" for above in range(at))])),
            namespace_selector=draw(st.none() | SELECTORS),
            workload_selector=draw(st.none() | SELECTORS),
        )
        for at in range(draw(st.integers(0, 12)))
    ]
    return draw(st.permutations(quotas))


def pairs(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(labels.items()))


def names(nodes) -> list[str]:
    return [node.quota.name for node in nodes]


def refused(*quotas: WorkspaceQuota):
    with pytest.raises(QuotaTreeError) as caught:
        QuotaTree.build(quotas)
    assert str(caught.value) == "; ".join(map(str, caught.value.problems))
    return caught.value.problems


def oracle(quotas, namespace_labels, workload_labels) -> set[str]:
    by_name = {quota.name: quota for quota in quotas}
    covered = set()
    for quota in quotas:
        name = quota.name if quota.matches(namespace_labels, workload_labels) else None
        while name is not None:
            covered.add(name)
            name = by_name[name].parent
    return covered


@given(forests(), LABELS, LABELS)
def test_matching_gives_every_covering_quota_and_its_ancestors_once_parents_first(quotas, namespace, workload):
    found = names(QuotaTree.build(quotas).matching(namespace, workload))
    assert len(found) == len(set(found))
    assert set(found) == oracle(quotas, namespace, workload)
    parents = {quota.name: quota.parent for quota in quotas}
    assert all(parents[name] is None or parents[name] in found[:at] for at, name in enumerate(found))


@given(forests(), LABELS)
def test_candidates_are_the_quotas_that_select_the_namespace(quotas, namespace):
    tree = QuotaTree.build(quotas)
    wanted = [q for q in quotas if q.namespace_selector is not None and q.namespace_selector.matches(namespace)]
    assert sorted(names(tree.namespace_candidates(namespace))) == sorted(quota.name for quota in wanted)


@given(forests(), LABELS, LABELS)
def test_where_workload_labels_do_not_matter_all_workloads_of_a_namespace_have_the_same_quotas(
    quotas, namespace, workload
):
    tree = QuotaTree.build(quotas)
    if not any(node.quota.workload_selector for node in tree.namespace_candidates(namespace)):
        assert tree.matching(namespace, workload) == tree.matching(namespace, {})


@given(forests(), st.randoms(use_true_random=False))
def test_the_order_of_the_quotas_in_the_source_does_not_matter(quotas, rng: random.Random):
    again = list(quotas)
    rng.shuffle(again)
    tree = QuotaTree.build(quotas)
    assert [node.path for node in tree.nodes] == [node.path for node in QuotaTree.build(again).nodes]
    assert [node.index for node in tree.nodes] == list(range(len(quotas)))
    assert all(tree.nodes[node.index] is node for node in tree.nodes)


def test_a_node_knows_its_parent_and_its_path():
    root = WorkspaceQuota("corp")
    leaf = WorkspaceQuota("team", parent="corp", namespace_selector=pairs(team="1"))
    tree = QuotaTree.build([leaf, root])
    corp, team = tree.nodes
    assert (corp.parent, team.parent) == (None, corp)
    assert team.path == ("corp", "team")
    assert team.lineage == (corp, team)
    assert repr(team) == "QuotaNode(corp/team)"
    assert team != QuotaTree.build([leaf, root]).nodes[1], "a node is equal only to itself"
    assert not hasattr(team, "__dict__")


def test_workloads_under_one_quota_share_one_tuple():
    quotas = [WorkspaceQuota("a"), WorkspaceQuota("b", parent="a", namespace_selector=pairs(n="1"))]
    tree = QuotaTree.build(quotas)
    assert tree.matching({"n": "1"}, {"x": "1"}) is tree.matching({"n": "1"}, {"x": "2"})


def test_no_quotas_cover_nothing():
    tree = QuotaTree.build(())
    assert tree.matching({"a": "x"}, {}) == ()
    assert tree.namespace_candidates({"a": "x"}) == ()


def test_a_quota_is_filed_under_its_rarest_label():
    """All 1,000 quotas ask for tier=web; a lookup must not try them all."""
    tried = []

    class Counting(LabelSelector):
        def matches(self, labels):
            tried.append(self)
            return super().matches(labels)

    quotas = [
        WorkspaceQuota(f"q{at}", namespace_selector=Counting((("tier", "web"), ("workspace", str(at)))))
        for at in range(1000)
    ]
    users = [
        WorkspaceQuota(f"u{at}", namespace_selector=Counting((("tier", "web"),)), workload_selector=pairs(user=str(at)))
        for at in range(1000)
    ]
    tree = QuotaTree.build([*quotas, *users])
    assert names(tree.matching({"tier": "web", "workspace": "7"}, {"user": "8"})) == ["q7", "u8"]
    assert len(tried) == 2


def test_a_chain_may_be_deeper_than_the_stack():
    quotas = [WorkspaceQuota(f"q{at}", parent=f"q{at - 1}" if at else None) for at in range(20_000)]
    quotas.append(WorkspaceQuota("leaf", parent="q19999", namespace_selector=LabelSelector()))
    tree = QuotaTree.build(quotas)
    assert len(tree.matching({}, {})) == 20_001
    assert tree.nodes[-1].path[:2] == ("q0", "q1")


def test_every_second_bearer_of_a_name_is_refused_at_its_position():
    problems = refused(WorkspaceQuota("a"), WorkspaceQuota("b"), WorkspaceQuota("a"), WorkspaceQuota("a"))
    assert [(p.position, p.problem.path) for p in problems] == [(2, ("metadata", "name")), (3, ("metadata", "name"))]
    assert str(problems[0]) == (
        'WorkspaceQuota "a": metadata.name: there is another WorkspaceQuota "a"; rename or remove one of them'
    )


def test_a_parent_that_is_not_there_is_refused():
    (problem,) = refused(WorkspaceQuota("a", parent="gone"), WorkspaceQuota("b", parent="a"))
    assert (problem.position, problem.problem.path) == (0, ("spec", "parent"))
    assert problem.problem.detail == 'there is no WorkspaceQuota "gone"'


def test_duplicates_and_missing_parents_are_listed_together():
    assert len(refused(WorkspaceQuota("a", parent="x"), WorkspaceQuota("a", parent="y"))) == 3


@pytest.mark.parametrize(
    ("parents", "rings"),
    [
        pytest.param({"a": "a"}, ["a → a"], id="itself"),
        pytest.param({"a": "b", "b": "c", "c": "a"}, ["a → b → c → a", "b → c → a → b", "c → a → b → c"], id="three"),
        pytest.param({"z": "a", "a": "b", "b": "a", "c": None}, ["a → b → a", "b → a → b"], id="with-a-tail"),
        pytest.param(
            {"a": "b", "b": "a", "c": "d", "d": "c"},
            ["a → b → a", "b → a → b", "c → d → c", "d → c → d"],
            id="two-rings",
        ),
        pytest.param({"a": "b", "b": "a", "z": "a"}, ["a → b → a", "b → a → b"], id="a-tail-found-later"),
    ],
)
def test_a_circle_of_parents_is_refused_at_every_member(parents, rings):
    problems = refused(*(WorkspaceQuota(name, parent=parent) for name, parent in parents.items()))
    assert [p.problem.detail for p in problems] == [f"parents run in a circle: {ring}" for ring in rings]
    assert [p.quota for p in problems] == [ring[0] for ring in rings]


def test_a_limit_above_the_parents_is_a_warning():
    corp = WorkspaceQuota("corp", hard={"pods": 10 * CPU, "requests.cpu": 4 * CPU})
    team = WorkspaceQuota("team", parent="corp", hard={"pods": 10 * CPU, "requests.cpu": 5 * CPU, "limits.cpu": 1})
    (warning,) = QuotaTree.build([corp, team]).warnings
    assert (warning.position, warning.problem.path) == (1, ("spec", "hard", "requests.cpu"))
    assert 'above that of the parent "corp"' in warning.problem.detail


def test_what_can_stand_is_salvaged_and_the_rest_stands_by_itself():
    quotas = [
        WorkspaceQuota("corp"),
        WorkspaceQuota("acme", parent="corp"),
        WorkspaceQuota("lost", parent="nobody"),
        WorkspaceQuota("below", parent="lost"),
        WorkspaceQuota("a", parent="b"),
        WorkspaceQuota("b", parent="a"),
        WorkspaceQuota("under", parent="a"),
    ]
    tree, problems = QuotaTree.salvage(quotas)
    assert [node.path for node in tree.nodes] == [
        ("a",), ("a", "under"), ("b",), ("corp",), ("corp", "acme"), ("lost",), ("lost", "below"),
    ]  # fmt: skip
    assert [(each.quota, each.problem.detail) for each in problems] == [
        ("lost", 'there is no WorkspaceQuota "nobody"'),
        ("a", "parents run in a circle: a → b → a"),
        ("b", "parents run in a circle: b → a → b"),
    ]


@pytest.mark.parametrize(
    ("above", "told"),
    [({"pods": "9"}, ["a", "root"]), ({"requests.cpu": "9"}, ["root"]), ({"pods": "9", "requests.cpu": "9"}, ["root"])],
)
def test_a_guarantee_of_what_no_quota_above_limits_keeps_nothing_and_is_told(above: dict[str, str], told: list[str]):
    """On a root nothing is kept, as there is nobody beside it."""
    own = {"requests.cpu": "1"}
    root = testing.quota("root", above | {"requests.memory": "1Gi"}, guaranteed={"requests.memory": "1Gi"})
    tree = QuotaTree.build([root, testing.quota("a", own, parent="root", guaranteed=own)])
    assert sorted(warning.quota for warning in tree.warnings) == told
    assert all("no quota above limits it, so nothing is kept" in warning.problem.detail for warning in tree.warnings)

"""What the doctor says of the admission webhook: installed, trusted, answering."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.quota.selectors import LabelSelector, Requirement
from extauthz.core.quota.spec import API_VERSION, KIND, WorkspaceQuota, parse
from extauthz.inputs.kube import webhooks
from extauthz.inputs.kube.webhooks import Webhooks
from extauthz.serve.selfsigned import issuing
from extauthz.tools.doctor import webhook
from extauthz.tools.doctor.canary import CanaryReply
from extauthz.tools.doctor.cluster import Rights
from extauthz.tools.doctor.table import Verdict
from extauthz.tools.doctor.trust import Handshake
from extauthz.tools.doctor.webhook import Called
from extauthz.tools.render.webhook import Custom, WebhookOptions, clamp_configuration, configuration
from tests.support.certs import Authority

Tree = Any
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DENIED = CanaryReply(403, message=f"{webhook.DENIED}: exceeded workspace quota: acme")

DEAD = "failurePolicy Fail: growth is refused while no gate answers"


def found(options: WebhookOptions | None = None) -> webhook.Found:
    one = webhook.find([{"metadata": {"name": "other"}}, configuration(options or WebhookOptions())])
    assert one is not None
    return copy.deepcopy(one)


def test_ours_is_found_by_the_name_that_its_refusals_have():
    assert webhook.find([{"metadata": {"name": "other"}, "webhooks": [{"name": "other.example.dev"}]}]) is None
    assert found().configuration == "extauthz"
    assert {row.verdict for row in webhook.none()} == {Verdict.SKIPPED}


def test_what_this_version_renders_is_well_and_so_are_its_options():
    row = webhook.installed(found())
    assert (row.verdict, row.found) == (
        Verdict.OK,
        f"extauthz asks as this version does; {DEAD}; not about kube-system, extauthz-system",
    )
    more = found(WebhookOptions(except_namespaces=("monitoring",), custom=(Custom("argoproj.io", "rollouts"),)))
    more.hook["namespaceSelector"]["matchLabels"] = {"a": "b"}
    assert webhook.installed(more).found.endswith(
        "not about kube-system, extauthz-system, monitoring, namespaces without certain labels"
    )


@pytest.mark.parametrize("labels", [None, (), ("tier", "example.com/team")], ids=["any", "none", "some"])
def test_which_labels_are_compared_and_further_conditions_are_choices(labels: tuple[str, ...] | None):
    options = WebhookOptions(workload_labels=labels, conditions=(("not-by-ci", "true"),))
    row = webhook.installed(found(options))
    assert row.verdict is Verdict.OK
    assert row.found.endswith("; only where not-by-ci holds too")
    leaves_out = found(WebhookOptions(object_selector=LabelSelector((), (Requirement("legacy", "DoesNotExist"),))))
    assert webhook.installed(leaves_out).verdict is Verdict.OK


WORKSPACES = LabelSelector((), (Requirement("workspace", "Exists"),))
PLACES = {
    "shop": {"team": "a", "workspace": "acme"},
    "lab": {"team": "a"},
    "kube-system": {"team": "a"},
    "extauthz-system": {"team": "a"},
}


def covering(name: str = "acme", mode: str = "Enforce", **selector: str) -> WorkspaceQuota:
    spec = {"namespaceSelector": {"matchLabels": selector}, "hard": {"pods": "1"}, "mode": mode}
    return parse({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})


def asked(selector: LabelSelector | None = None, *, clamps: bool = True) -> Webhooks:
    options = WebhookOptions(namespace_selector=selector or LabelSelector())
    lowers = clamp_configuration(options)["webhooks"][0] if clamps else None
    return webhooks.of(configuration(options)["webhooks"][0], lowers)


def test_a_namespace_that_a_quota_covers_and_it_is_not_asked_about_is_named():
    assert webhook.namespaces(asked(), [covering(team="a")], PLACES).verdict is Verdict.OK
    assert webhook.namespaces(asked(WORKSPACES), [covering(workspace="acme")], PLACES).verdict is Verdict.OK
    row = webhook.namespaces(asked(WORKSPACES), [covering(team="a"), covering("other", team="b")], PLACES)
    assert (row.verdict, row.found) == (Verdict.FAIL, "acme covers lab, which it is not asked about")
    assert "webhook.namespaceSelector" in row.cure
    many = webhook.namespaces(asked(WORKSPACES), [covering(f"q{number}", team="a") for number in range(9)], PLACES)
    assert many.found.endswith("; and 4 quotas more")


def test_a_quota_in_mode_clamp_whose_counts_nothing_lowers_is_named():
    assert webhook.clamp(asked(clamps=False), [covering(team="a")], PLACES).found == "no quota has the mode Clamp"
    assert webhook.clamp(asked(), [covering(mode="Clamp", team="a")], PLACES).found == "it lowers counts for acme"
    for told in (asked(clamps=False), asked(WORKSPACES)):
        row = webhook.clamp(told, [covering(mode="Clamp", team="a")], PLACES)
        assert row.verdict is Verdict.WARN
        assert row.found == "it lowers no count for acme, in mode Clamp: what does not fit is refused"


FAULTS: dict[str, tuple[Callable[[Tree], object], str]] = {
    "rule": (lambda hook: hook["rules"].pop(), "it is not asked about CREATE of jobs.batch"),
    "scale": (
        lambda hook: hook["rules"][0]["resources"].remove("deployments/scale"),
        "it is not asked about CREATE of deployments/scale.apps; it is not asked about UPDATE",
    ),
    "creates": (lambda hook: hook["rules"][0]["operations"].remove("CREATE"), "CREATE of deployments.apps"),
    "conditions": (
        lambda hook: hook["matchConditions"][-1].update(expression="false"),
        "matchConditions may-grow are not those of this version",
    ),
    "a condition less": (
        lambda hook: hook["matchConditions"].pop(0),
        "matchConditions not-by-a-controller are not those of this version",
    ),
    "policy": (lambda hook: hook.update(matchPolicy="Exact"), "matchPolicy is not that of this version"),
    "objects": (lambda hook: hook.update(objectSelector={"matchLabels": {"a": "b"}}), "a Scale has no labels"),
}


@pytest.mark.parametrize(("change", "told"), FAULTS.values(), ids=FAULTS)
def test_what_lets_growth_pass_unasked_fails(change: Callable[[Tree], object], told: str):
    broken = found()
    change(broken.hook)
    row = webhook.installed(broken)
    assert row.verdict is Verdict.FAIL
    assert told in row.found


@pytest.mark.parametrize(
    ("policy", "verdict", "told"),
    [
        ("Fail", Verdict.OK, DEAD),
        ("Ignore", Verdict.WARN, "failurePolicy Ignore: growth passes while no gate answers"),
    ],
)
def test_it_says_what_becomes_of_growth_while_no_gate_answers(policy: str, verdict: Verdict, told: str):
    asks = found()
    asks.hook["failurePolicy"] = policy
    row = webhook.installed(asks)
    assert row.verdict is verdict
    assert told in row.found


def test_where_it_is_called_is_a_service_or_a_url():
    hook = found().hook
    service = {"spec": {"clusterIP": "10.0.0.7"}}
    assert webhook.called(hook, service) == Called("extauthz.extauthz-system.svc", "10.0.0.7", 443)
    assert webhook.called(hook, None) is None
    url = found(WebhookOptions(url="https://gate.example.com:9443")).hook
    assert webhook.called(url, None) == Called("gate.example.com", "gate.example.com", 9443)


WHERE = Called("extauthz.extauthz-system.svc", "10.0.0.7", 443)
FAR = Handshake("10.0.0.7:443", "nothing came within 5 s")
HANDSHAKES: dict[str, tuple[Called | None, Handshake | None, bool, Verdict, str]] = {
    "no-service": (None, None, False, Verdict.FAIL, "there is no such Service"),
    "refused": (
        WHERE,
        Handshake("10.0.0.7:443", "unable to get local issuer certificate", refused=True),
        True,
        Verdict.FAIL,
        "caBundle does not vouch for extauthz.extauthz-system.svc at 10.0.0.7:443: unable to get",
    ),
    "far": (WHERE, FAR, False, Verdict.WARN, "from here 10.0.0.7:443 is not reached (nothing came within 5 s)"),
    "far-and-answered": (WHERE, FAR, True, Verdict.OK, "the API server trusts it; from here"),
    "well": (
        WHERE,
        Handshake("10.0.0.7:443", expires=NOW + timedelta(days=40)),
        False,
        Verdict.OK,
        "caBundle vouches for extauthz.extauthz-system.svc; what 10.0.0.7:443 shows",
    ),
    "soon": (WHERE, Handshake("h", expires=NOW + timedelta(days=3)), True, Verdict.WARN, "(in 3 days)"),
    "over": (WHERE, Handshake("h", expires=NOW), True, Verdict.FAIL, "(expired)"),
}


@pytest.mark.parametrize(("where", "shake", "answered", "verdict", "told"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_its_authority(where, shake, answered, verdict, told):
    row = webhook.authority(where, shake, NOW, answered=answered)
    assert row.verdict is verdict
    assert told in row.found
    assert bool(row.cure) == (verdict is not Verdict.OK)


FAILED = CanaryReply(500, message=f"Internal error occurred: {webhook.FAILED}: failed to call webhook: x509: unknown")
ANSWERS: dict[str, tuple[list[CanaryReply], Verdict, str]] = {
    "none": ([], Verdict.SKIPPED, "the cluster has no Deployment"),
    "decided": ([CanaryReply(200), DENIED], Verdict.OK, "a dry run on shop/b was decided (403)"),
    "lowered": (
        [CanaryReply(200), CanaryReply(200, is_lowered=True)],
        Verdict.OK,
        "a dry run on shop/b was decided (200, lowered)",
    ),
    "no-answer": ([FAILED], Verdict.FAIL, "the API server gets no answer: failed to call webhook: x509: unknown"),
    "passed": (
        [CanaryReply(200), CanaryReply(200)],
        Verdict.WARN,
        "dry runs on shop/a, shop/b (200) were not refused by it",
    ),
    "no-right": ([CanaryReply(403, message="cannot patch")], Verdict.SKIPPED, "the user of --kubeconfig may not scale"),
}


@pytest.mark.parametrize(("answers", "verdict", "told"), ANSWERS.values(), ids=ANSWERS)
def test_its_canary(answers, verdict, told):
    row = webhook.canary(["shop/a", "shop/b"][: len(answers)], answers)
    assert row.verdict is verdict
    assert told in row.found


@pytest.mark.parametrize(
    ("why", "cure"), [("x509: unknown", "see the row webhook authority"), ("no route to host", webhook.REACH)]
)
def test_the_cure_of_a_canary_without_an_answer_is_for_what_is_in_the_way(why: str, cure: str):
    failed = CanaryReply(500, message=f"Internal error occurred: {webhook.FAILED}: failed to call webhook: {why}")
    assert webhook.canary(["shop/a"], [failed]).cure == cure


AUTHORITY = issuing.authority(NOW, timedelta(days=1)).pem[0]
NEEDED = [
    "get secrets extauthz-webhook in extauthz-system",
    "update secrets extauthz-webhook in extauthz-system",
    "get validatingwebhookconfigurations.admissionregistration.k8s.io extauthz",
    "get mutatingwebhookconfigurations.admissionregistration.k8s.io extauthz",
    "patch validatingwebhookconfigurations.admissionregistration.k8s.io extauthz",
]


@pytest.mark.parametrize(
    ("bundle", "annotations", "answered", "expected"),
    [
        (base64.b64encode(AUTHORITY).decode(), {}, True, True),
        (base64.b64encode(AUTHORITY).decode(), {}, False, True),
        ("", {}, False, True),
        ("", {}, True, False),
        ("", {"cert-manager.io/inject-ca-from": "a/b"}, False, False),
        (base64.b64encode(b"nonsense").decode(), {}, False, False),
        ("no base64", {}, False, False),
    ],
    ids=["ours", "ours, dead", "nobody's yet", "the system's", "cert-manager's", "no certificate", "no text"],
)
def test_whether_gates_make_the_certificate(
    bundle: str, annotations: dict[str, str], answered: bool, expected: bool, tmp_path: Path
):
    tree = configuration(WebhookOptions())
    tree["metadata"]["annotations"] = annotations
    tree["webhooks"][0]["clientConfig"]["caBundle"] = bundle
    one = webhook.find([tree])
    assert one is not None
    assert webhook.gates_make(one, answered=answered) is expected


def test_an_authority_of_somebody_else_is_none_of_the_gates(tmp_path: Path):
    one = found(WebhookOptions(ca=Authority(tmp_path).ca.read_bytes()))
    assert not webhook.gates_make(one, answered=False)


@pytest.mark.parametrize("missing", NEEDED)
def test_each_right_that_a_certificate_of_the_gates_needs_is_named(missing: str):
    rights = webhook.certificate_rights("extauthz", "extauthz-system")
    assert [str(right) for right in rights] == NEEDED
    told = Rights("the service account a/b", True, {right: str(right) != missing for right in rights})
    row = webhook.certificate(told)
    assert (row.verdict, row.found) == (Verdict.FAIL, f"the service account a/b may not {missing}")
    assert "self-signed" in row.cure


def test_a_certificate_that_gates_may_make_is_well_and_another_is_not_looked_at():
    rights = dict.fromkeys(webhook.certificate_rights("extauthz", "extauthz-system"), True)
    row = webhook.certificate(Rights("the service account a/b", True, rights))
    assert (row.verdict, row.found) == (Verdict.OK, "the service account a/b may make and renew it")
    assert webhook.certificate(Rights("the user of --kubeconfig", False, rights)).verdict is Verdict.WARN
    assert webhook.certificate(None).verdict is Verdict.SKIPPED

"""``extauthz check`` of a workload: exit codes, the table and the JSON that programs may rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.cli.report import as_json, as_table
from extauthz.core.model import Decision, Evidence, Operation, Shortage, Unspecified, Verdict, WorkloadRef
from extauthz.serve.servers.api import shown

QUOTAS = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: big}
spec: {hard: {requests.memory: 100Gi}}
---
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec:
  parent: big
  mode: Enforce
  namespaceSelector: {matchLabels: {workspace: acme}}
  hard: {requests.memory: 8Gi, requests.cpu: "4"}
"""

STATE = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"workspace": "acme"}}},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "u1", "resourceVersion": "5"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]}
                },
            },
        },
    ],
}


class Check:
    """Runs the command with the files above, of a StatefulSet of 3 replicas."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        (directory / "quotas.yaml").write_text(QUOTAS)
        (directory / "state.json").write_text(json.dumps(STATE))
        self.places = ["--quotas", f"{directory}/quotas.yaml", "--state", f"{directory}/state.json"]

    def __call__(self, replicas: int, *more: str) -> tuple[int, str, str]:
        return self.run("check", "sts/db", "-n", "shop", f"--replicas={replicas}", *self.places, *more)

    def run(self, *words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("COLUMNS", "80")
    return Check(tmp_path, capsys)


@pytest.mark.parametrize(
    ("replicas", "code", "first"),
    [
        pytest.param(4, 0, "verdict    allow (fits)", id="fits"),
        pytest.param(0, 0, "verdict    allow (zero)", id="zero"),
        pytest.param(5, 1, "verdict    deny (exceeded-quota)", id="too-much"),
    ],
)
def test_the_exit_code_is_the_verdict(replicas, code, first, check: Check) -> None:
    got, out, err = check(replicas)
    assert (got, out.splitlines()[0], err) == (code, first, "")


def test_the_table_shows_what_was_asked_and_all_the_evidence(check: Check) -> None:
    _, out, _ = check(5)
    assert (
        out
        == """\
verdict    deny (exceeded-quota)
workload   statefulsets.apps shop/db
operation  patch of its scale
replicas   3 → 5 (largest that fits: 4)

statefulsets.apps "db" is forbidden: exceeded workspace quota: acme, requested:
requests.memory=4Gi,requests.cpu=2, used: requests.memory=6Gi,requests.cpu=3,
limited: requests.memory=8Gi,requests.cpu=4; largest allowed replicas: 4

refused by:
  quota     resource         requested  used  reserved  hard
  big/acme  requests.memory  4Gi        6Gi   0         8Gi
  big/acme  requests.cpu     2          3     0         4
"""
    )


def test_the_json_has_every_field_and_exact_amounts(check: Check) -> None:
    code, out, _ = check(5, "-o", "json")
    tree = json.loads(out)
    sentence = tree.pop("sentence")
    shortages = tree.pop("shortages")
    assert code == 1
    assert sentence.endswith("largest allowed replicas: 4")
    assert tree == {
        "verdict": "deny",
        "reason": "exceeded-quota",
        "refusal": "ExceedsHard",
        "workload": {"group": "apps", "resource": "statefulsets", "namespace": "shop", "name": "db"},
        "operation": "patch",
        "scale": True,
        "dryRun": False,
        "replicas": {"from": 3, "to": 5},
        "fits": 4,
        "turn": None,
        "audit": [],
        "unspecified": [],
        "policies": [],
    }
    assert shortages[1] == {
        "quota": "acme",
        "path": ["big", "acme"],
        "resource": "requests.cpu",
        "requested": {"text": "2", "nanos": 2 * 10**9},
        "used": {"text": "3", "nanos": 3 * 10**9},
        "reserved": {"text": "0", "nanos": 0},
        "kept": {"text": "0", "nanos": 0},
        "hard": {"text": "4", "nanos": 4 * 10**9},
    }


def test_a_decision_without_a_workload_has_the_same_fields_and_a_dry_run_is_shown_as_one() -> None:
    empty = Decision("1", Verdict.ALLOW, "read", "")
    full = empty._replace(ref=WorkloadRef("", "pods", "n", "p"), operation=Operation.CREATE, dry_run=True)
    assert shown.decision(full).keys() == shown.decision(empty).keys()
    assert shown.decision(empty)["workload"] is None
    assert "operation  create, dry run\n" in as_table(shown.decision(full))


def test_a_question_charges_nothing(check: Check) -> None:
    assert "charged nothing" in check(4)[1]


def test_what_an_audit_would_refuse_is_shown_beside_the_verdict() -> None:
    row = Shortage("q", ("q",), "pods", 10**9, 10**9, 0, 10**9)
    allowed = Decision("1", Verdict.ALLOW, "fits", "fits", WorkloadRef("", "pods", "n", "p"), Operation.CREATE)
    out = as_table(shown.decision(Decision("1", Verdict.ALLOW, "fits", "fits", evidence=Evidence(audit=(row,)))))
    assert "would be refused, but only audited, by:\n  quota  resource  requested  used  reserved  hard\n  q " in out
    assert "operation  create\n" in as_table(shown.decision(allowed))
    audited = shown.decision(Decision("1", Verdict.ALLOW, "fits", "", evidence=Evidence(audit=(row,))))
    assert json.loads(as_json(audited))["audit"][0]["quota"] == "q"


def test_what_pods_would_have_to_state_for_a_quota_that_audits_is_shown_too() -> None:
    rows = (Unspecified("q", ("q",), "requests.cpu", ("c",), True),)
    allowed = Decision("1", Verdict.ALLOW, "fits", "fits", evidence=Evidence(unspecified=rows))
    only_audited = "would be refused, but only audited: pods must specify requests.cpu for q\n"
    assert only_audited in as_table(shown.decision(allowed))
    assert json.loads(as_json(shown.decision(allowed)))["unspecified"] == [
        {"quota": "q", "path": ["q"], "resource": "requests.cpu", "containers": ["c"], "audits": True}
    ]
    denied = allowed._replace(verdict=Verdict.DENY, evidence=Evidence(unspecified=(rows[0]._replace(audits=False),)))
    assert "only audited" not in as_table(shown.decision(denied))


def test_nothing_in_a_request_can_move_the_cursor_of_a_terminal() -> None:
    assert "\x1b" not in as_table(shown.decision(Decision("1", Verdict.UNAVAILABLE, "r", "a \x1b[2J \ud800 b")))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param(["--output", "xml"], "argument -o/--output: invalid choice: 'xml'", id="output"),
        pytest.param(
            ["--allow-unknown", "maybe"],
            "--allow-unknown: 'maybe' is not one of unreadable",
            id="setting",
        ),
    ],
)
def test_wrong_usage_is_no_decision(more, says, check: Check) -> None:
    code, out, err = check(4, *more)
    assert (code, out) == (64, "")
    assert says in err


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--quotas", "absent: cannot be read: No such file or directory"),
        ("--state", "absent: cannot be read: No such file or directory"),
        ("--config", "--config: absent: No such file or directory"),
    ],
)
def test_a_file_that_is_not_there_is_no_decision(flag, says, check: Check) -> None:
    code, out, err = check(4, flag, "absent")
    assert (code, out) == (65, "")
    assert says in err


def test_a_bad_quota_is_told_with_file_line_field_and_cure(check: Check) -> None:
    (check.directory / "bad.yaml").write_text(QUOTAS.replace("requests.cpu", "request.cpu"))
    code, _, err = check(4, "--quotas", f"{check.directory}/bad.yaml")
    assert code == 65
    assert err.startswith(f"extauthz: {check.directory}/bad.yaml:13: spec.hard")
    assert err.count("\n") == 1


def test_help_shows_examples(check: Check) -> None:
    code, out, _ = check.run("check", "--help")
    assert code == 0
    assert "examples:" in out
    assert "exit codes:" in out


def test_the_version_is_the_packages(check: Check) -> None:
    assert check.run("--version") == (0, "extauthz 0.1.0\n", "")


@pytest.mark.parametrize(
    ("flag", "given"), [("quotas", "kubernetes"), ("state", "kubernetes"), ("quotas", "https://platform/quotas")]
)
def test_it_reads_files_only_and_says_how_to_get_them(flag: str, given: str, check: Check) -> None:
    code, _, error = check(4, f"--{flag}", given)
    assert code == 64
    assert f"--{flag}: files are read here, not {given}; save them first: kubectl get" in error.replace(":/p", "://p")


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
TRAIN = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {workspace: acme}}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaimTemplate
  metadata: {name: one-gpu, namespace: a}
  spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: train, namespace: a, uid: u1, resourceVersion: "5"}
  spec:
    replicas: 2
    selector: {matchLabels: {app: train}}
    template:
      spec:
        containers: [{name: c}]
        resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""


@pytest.mark.parametrize(("replicas", "code"), [("4", 0), ("5", 1)])
def test_devices_are_counted_by_the_claims_of_pods(replicas: str, code: int, check: Check) -> None:
    hard = f'spec:\n  hard: {{{DEVICES}: "4"}}\n  mode: Enforce\n'
    (check.directory / "q.yaml").write_text(
        f"apiVersion: extauthz.dev/v1alpha1\nkind: WorkspaceQuota\nmetadata: {{name: acme}}\n{hard}"
    )
    (check.directory / "s.yaml").write_text(TRAIN)
    places = ["--quotas", f"{check.directory}/q.yaml", "--state", f"{check.directory}/s.yaml"]
    got, out, err = check.run("check", "deploy/train", "-n", "a", "--replicas", replicas, *places, "-o", "json")
    assert (got, err) == (code, "")
    sentence = json.loads(out)["sentence"]
    assert code == 0 or f"requested: {DEVICES}=3, used: {DEVICES}=2, limited: {DEVICES}=4" in sentence

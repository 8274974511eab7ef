"""``extauthz check -f``: objects of files, as the webhook would be shown them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.unit.test_cli_check import STATE, Check

SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: {name}{more}}}
spec:
  {replicas}
  template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1", memory: 2Gi}}}}}}]}}}}
"""


def made(name: str = "db", replicas: str = "replicas: 4", more: str = ", namespace: shop") -> str:
    return SET.format(name=name, replicas=replicas, more=more)


class CheckFiles(Check):
    """Runs the command on objects."""

    def file(self, name: str, text: str) -> str:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def asked(self, *words: str) -> tuple[int, str]:
        code, out, err = self.run("check", *self.places, *words)
        return code, out + err


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CheckFiles:
    return CheckFiles(tmp_path, capsys)


def test_each_object_with_replicas_gets_a_line_and_one_that_is_refused_its_sentence(check):
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    check.file("app/a.yaml", f"{made()}---\n{service}---\n{made('new')}")
    check.file("app/b.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [STATE["items"][1]]}))
    code, said = check.asked("-f", str(check.directory / "app"))
    first, second, third = said.splitlines()
    assert code == 1
    assert first == "allow       statefulsets.apps shop/db, 3 → 4: fits"
    assert second.startswith(
        'deny        statefulsets.apps shop/new, new, 4: statefulsets.apps "new" is forbidden: exceeded'
    )
    assert "largest allowed replicas: 1" in second
    assert third.startswith("allow       statefulsets.apps shop/db, 3 → 3: ")


def test_a_count_that_a_manifest_leaves_out_stays_as_it_is(check):
    """As with an HPA beside ``kubectl apply``."""
    assert check.asked("-f", check.file("a.yaml", made(replicas="serviceName: db"))) == (
        0,
        "allow       statefulsets.apps shop/db, 3 → 3: no-growth\n",
    )


def test_standard_input_is_read_and_the_namespace_may_be_given(check, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(made(more="").encode())))
    assert check.asked("-f", "-", "-n", "shop")[0] == 0


def test_json_has_the_decisions_with_their_files(check):
    file = check.file("a.yaml", made("new"))
    code, said = check.asked("-f", file, "-o", "json")
    (found,) = json.loads(said)
    assert (code, found["file"], found["decision"]["verdict"], found["decision"]["fits"]) == (1, file, "deny", 1)


def test_what_cannot_be_decided_is_2_and_nothing_to_decide_is_0(check):
    code, said = check.asked("-f", check.file("a.yaml", made(replicas="replicas: many")))
    assert (code, said.split()[0]) == (2, "unavailable")
    assert "spec.replicas: must be a whole number" in said
    assert check.asked("-f", check.file("a.yaml", "apiVersion: v1\nkind: Service\n")) == (
        0,
        "no object with replicas\n",
    )


def test_all_that_is_wrong_is_told_with_file_line_and_field(check):
    file = check.file(
        "a.yaml",
        "---\n".join([made(more=""), made(name='""'), "kind: Deployment\n", "[1]\n", made(more=", namespace: other")])
        + "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: shop}}\n",
    )
    code, said = check.asked("-f", file)
    assert code == 65
    assert said.splitlines() == [
        f"extauthz: {file}:3: metadata.namespace: is missing, and no --namespace is given; correct it in the manifest",
        f"extauthz: {file}:10: metadata.name: is missing; correct it in the manifest",
        f"extauthz: {file}:15: apiVersion: is missing; correct it in the manifest",
        f"extauthz: {file}:17: kind: is missing: it is no object of Kubernetes; correct it in the manifest",
        f"extauthz: {file}:26: spec: must be an object; correct it in the manifest",
    ]
    assert "metadata.namespace: is 'other', and --namespace says 'shop'" in check.asked("-f", file, "-n", "shop")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("deploy/web",), "workload: leave it out where -f names files"),
        (("--replicas", "3"), "replicas: leave it out where -f names files"),
        (("--method", "PUT"), "method: leave it out where -f names files"),
    ],
)
def test_files_and_another_write_are_two_questions(check, words: tuple[str, ...], said: str):
    code, told = check.asked("-f", check.file("a.yaml", made()), *words)
    assert (code, told) == (64, f"extauthz: {said}\n")

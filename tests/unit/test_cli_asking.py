"""``extauthz top`` and ``check`` of a workload: from files, and from a gate that runs, the same."""

from __future__ import annotations

import argparse
import json
import socket
import threading
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from extauthz.cli import asking, headroom, main, top
from extauthz.testing import pod
from tests.servers.running import Running
from tests.support.custom import RAY, RAY_CLUSTERS, raycluster, worker

QUOTAS = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: corp}
spec: {hard: {requests.cpu: "20"}, mode: Enforce}
---
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec:
  parent: corp
  mode: Enforce
  namespaceSelector: {matchLabels: {workspace: acme}}
  hard: {requests.cpu: "6", pods: "50"}
"""


def deployment(name: str, replicas: int, namespace: str = "shop", cpu: str = "1") -> dict[str, object]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": "5"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}},
        },
    }


STATE = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"workspace": "acme"}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}},
        deployment("web", 2),
        deployment("db", 1, cpu="1500m"),
        deployment("lone", 1, "free"),
    ],
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asking")
    (folder / "quotas.yaml").write_text(QUOTAS)
    (folder / "state.json").write_text(json.dumps(STATE))
    return folder


@pytest.fixture(scope="module")
def server(files: Path):
    with Running(files) as gate:
        yield f"http://{gate.http}"


@pytest.fixture(params=["files", "server"])
def ask(request: pytest.FixtureRequest, files: Path, server: str, capsys: pytest.CaptureFixture[str]) -> Run:
    of_files = ("--quotas", f"{files}/quotas.yaml", "--state", f"{files}/state.json")
    source = of_files if request.param == "files" else ("--server", server)
    return lambda *words: run(capsys, *words, *source)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_top_shows_the_tree_of_quotas(ask: Run):
    assert ask("top") == (
        0,
        """\
QUOTA   WORKLOADS  RESOURCE      USED   RESERVED  KEPT  HARD  GUARANTEED
corp    2          requests.cpu  3500m  0         0     20    0
  acme  2          requests.cpu  3500m  0         0     6     0
                   pods          3      0         0     50    0
""",
        "",
    )


def test_top_of_a_quota_shows_who_uses_most_of_what_is_scarcest(ask: Run):
    assert ask("top", "acme") == (
        0,
        """\
WORKLOAD                   REPLICAS  requests.cpu  pods
deployments.apps shop/web  2         2             2
deployments.apps shop/db   1         1500m         1
""",
        "",
    )


def test_top_is_cut_and_says_so(ask: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(top, "SHOWN", 1)
    _, out, _ = ask("top", "acme")
    assert out.splitlines()[1:] == [
        "deployments.apps shop/web  2         2             2",
        "and 1 more; -o json has up to 1000",
    ]


def test_top_as_json_is_what_the_api_says(ask: Run):
    assert [one["name"] for one in json.loads(ask("top", "-o", "json")[1])] == ["corp", "acme"]
    assert json.loads(ask("top", "acme", "-o", "json", "--sort", "pods")[1])["total"] == 2


def test_check_without_replicas_names_what_stands_in_the_way(ask: Run):
    assert ask("check", "deploy/web", "-n", "shop") == (
        0,
        """\
deployments.apps shop/web has 2 replicas and may have 4.

5 replicas do not fit:
  quota      resource      requested  used   reserved  hard
  corp/acme  requests.cpu  3          3500m  0         6
""",
        "",
    )


def test_check_without_replicas_says_of_how_many_that_an_autoscaler_may_ask_for(ask: Run):
    found = json.loads(ask("check", "deploy/web", "-n", "shop", "-o", "json")[1])
    assert found["mayAskFor"] is None
    said = [headroom.as_text(found | {"mayAskFor": most}).splitlines()[0] for most in (24, found["replicas"], None)]
    plain = f"deployments.apps shop/web has 2 replicas and may have {found['replicas']}"
    assert said == [f"{plain} of the 24 that its autoscaler may ask for.", f"{plain}.", f"{plain}."]


@pytest.mark.parametrize(
    ("more", "code", "counts", "said"),
    [
        ("rayclusters.ray.io/ray", 0, "objects", "is one object and 2 more like it fit.\n\nOne more does not fit:"),
        ("rayclusters.ray.io/large", 1, "objects", "is one object and no more like it fits.\n\nOne more does not fit:"),
        ("jobs.batch/train", 0, "parallelism", "runs up to 2 pods at once and may run 4.\n\n5 pods do not fit:"),
    ],
)
def test_check_without_replicas_of_what_has_no_scale_counts_whole_objects_and_of_a_job_pods_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, code: int, counts: str, said: str
):
    def ray(name: str, workers: int) -> dict[str, object]:
        made = raycluster(worker("a", workers, {"cpu": "250m"}), headGroupSpec={"template": pod({"cpu": "500m"})})
        return made | {"metadata": {"name": name, "namespace": "shop", "uid": name}}

    job = deployment("train", 1) | {"apiVersion": "batch/v1", "kind": "Job"}
    job["spec"] = {"parallelism": 2, "template": {"spec": pod({"cpu": "1"})["spec"]}}
    items = [
        STATE["items"][0],
        RAY_CLUSTERS,
        ray("ray", 2),
        ray("large", 2) if "large" not in more else ray("large", 5),
    ]
    (tmp_path / "quotas.yaml").write_text(QUOTAS)
    (tmp_path / "state.json").write_text(json.dumps(STATE | {"items": [*items, job]}))
    where = ("--quotas", f"{tmp_path}/quotas.yaml", "--state", f"{tmp_path}/state.json", f"--pod-groups={RAY}")
    found, out, _ = run(capsys, "check", more, "-n", "shop", *where)
    assert found == code, "whether one more fits"
    assert out.startswith(f"{more.replace('/', ' shop/')} {said}")
    assert json.loads(run(capsys, "check", more, "-n", "shop", "-o", "json", *where)[1])["counts"] == counts


def test_check_without_replicas_without_a_quota_has_no_bound(ask: Run):
    code, out, _ = ask("check", "Deployment/lone", "-n", "free")
    assert (code, out) == (0, "deployments.apps free/lone has 1 replica, and no quota sets a bound.\n")
    assert json.loads(ask("check", "deployments.apps/lone", "-n", "free", "-o", "json")[1])["replicas"] is None


@pytest.mark.parametrize(("replicas", "code", "first"), [("4", 0, "allow (fits)"), ("5", 1, "deny (exceeded-quota)")])
def test_check_of_a_workload_gives_the_verdict(ask: Run, replicas: str, code: int, first: str):
    got, out, err = ask("check", "deploy/web", "-n", "shop", "--replicas", replicas)
    assert (got, out.splitlines()[0], err) == (code, f"verdict    {first}", "")


def test_what_is_not_known_is_said(ask: Run):
    assert ask("check", "deploy/nobody", "-n", "shop")[::2] == (
        69,
        "extauthz: deployments.apps shop/nobody is not known\n",
    )
    assert ask("top", "nobody")[::2] == (69, 'extauthz: there is no quota "nobody"\n')


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("top",), "say where to look: --quotas FILE --state FILE, or --server URL of a gate that runs"),
        (("top", "--server", "http://x", "--state", "y"), "--server and --state are two places; leave one of them out"),
        (("top", "--server", "gate:1"), "--server: 'gate:1' is no URL; write for example http://127.0.0.1:9192"),
        (("check", "web", "-n", "a"), "'web' is no KIND/NAME; write for example deploy/web"),
        (("check", "pods/web", "-n", "a"), "'pods' is no kind with replicas; there are deploy, deployments"),
        (("check", "deploy/web", "--replicas", "3"), "--namespace is needed with a workload"),
        (("check", "deploy/web"), "--namespace is needed with a workload"),
        (("check",), "say what to decide: KIND/NAME -n NAMESPACE, or -f FILE"),
    ],
)
def test_wrong_usage_names_the_cure(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], cure: str):
    code, _, err = run(capsys, *words)
    assert code == 64
    assert cure in err


def test_a_state_without_the_namespace_of_a_workload_says_that_its_quotas_are_unknown(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "state.json").write_text(json.dumps(STATE | {"items": [deployment("web", 2)]}))
    of_files = ("--quotas", f"{files}/quotas.yaml", "--state", f"{tmp_path}/state.json")
    assert 'there is no Namespace "shop" in the state' in run(capsys, "check", "deploy/web", "-n", "shop", *of_files)[2]


def test_a_server_that_does_not_answer_or_is_another_is_named(capsys: pytest.CaptureFixture[str], server: str):
    code, _, err = run(capsys, "top", "--server", "http://127.0.0.1:1")
    assert code == 69
    assert "--server: http://127.0.0.1:1/api/v1 does not answer: " in err
    code, _, err = run(capsys, "top", "--server", server + "/metrics")
    assert (code, err) == (69, "extauthz: the server answered 404 Not Found; is it the --http address of extauthz?\n")


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    "said", [b"\x00\x00\x12\x04\x00 is HTTP/2\r\n\r\n", OK + b"{", OK + b"[]", OK + b"{}"], ids=str
)
@pytest.mark.parametrize(
    "words", [("top",), ("check", "deploy/web", "-n=a"), ("check", "deploy/web", "-n=a", "--replicas=1")]
)
def test_what_answers_and_is_no_gate_is_no_verdict(
    capsys: pytest.CaptureFixture[str], said: bytes, words: tuple[str, ...]
):
    """Exit code 1 would say that a write is denied."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10.0)

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(said)

        answering = threading.Thread(target=answer)
        answering.start()
        code, _, err = run(capsys, *words, f"--server=http://127.0.0.1:{server.getsockname()[1]}")
        answering.join()
    assert code == 69
    assert "--server: http://127.0.0.1:" in err


def test_a_port_that_is_none_is_named(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "top", "--server=http://127.0.0.1:x")
    assert code == 69
    assert "nonnumeric port" in err


def test_a_custom_resource_is_named_by_its_group(capsys: pytest.CaptureFixture[str], server: str):
    code, _, err = run(capsys, "check", "rollouts.argoproj.io/web", "-n", "shop", "--server", server)
    assert (code, err) == (69, "extauthz: rollouts.argoproj.io shop/web is not known\n")


def test_kubectl_finds_it_as_a_plugin():
    (plugin,) = entry_points(group="console_scripts", name="kubectl-wsq")
    assert plugin.load() is main


def test_nothing_that_a_tenant_names_moves_the_cursor():
    from extauthz.cli import report

    assert report.lines([("a\x1b[2J", "b")]) == ["a\ufffd[2J  b"]


def test_a_reader_of_the_output_that_has_gone_is_no_wrong_file():
    def run(_: argparse.Namespace) -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asking.answered(run)(argparse.Namespace())


def test_an_override_in_force_is_told_wherever_its_limits_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sale = {
        "name": "sale",
        "from": "2026-11-28T00:00:00Z",
        "until": "2026-11-30T00:00:00Z",
        "hard": {"requests.cpu": "4"},
        "reason": "rented",
    }
    plain = '  hard: {requests.cpu: "6"'
    (tmp_path / "q.yaml").write_text(QUOTAS.replace(plain, f"  overrides: [{json.dumps(sale)}]\n{plain}"))
    (tmp_path / "s.json").write_text(json.dumps(STATE))
    of_files = ("--quotas", f"{tmp_path}/q.yaml", "--state", f"{tmp_path}/s.json")
    for words in (("top",), ("top", "acme"), ("check", "deploy/web", "-n", "shop")):
        during = run(capsys, *words, *of_files, "--now", "2026-11-29T00:00:00Z")[1]
        assert "acme: override sale is in force until 2026-11-30T00:00:00Z (rented)" in during
        assert "in force" not in run(capsys, *words, *of_files, "--now", "2027-11-29T00:00:00Z")[1]
    before = run(capsys, "top", *of_files, "--now", "2026-11-27T00:00:00Z")[1]
    assert "acme: override sale begins at 2026-11-28T00:00:00Z (rented)" in before


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["render", "envoy", "--profile", "all"], "writes, autoscaler, scale"),
        (["render", "envoy", "--on-outage", "ignore"], "deny, allow"),
        (["render", "envoy", "--anonymous", "no"], "deny, ask, verify"),
        (["doctor", "--profile", "all"], "writes, autoscaler, scale"),
        (["doctor", "--on-outage", "ignore"], "deny, allow"),
    ],
)
def test_a_wrong_choice_is_told_with_what_there_is(words: list[str], choices: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 64
    assert f"invalid choice: '{words[-1]}' (choose from {choices})" in capsys.readouterr().err

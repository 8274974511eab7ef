"""Finding and building the real control plane, with stand-ins for Go and the binaries; what tests say without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import parts

ROOT = Path(__file__).parents[2]
WITHIN_S = 60
USUAL = [name for name in parts.NAMES if name not in parts.OPTIONAL]
GO = """#!/bin/sh
echo "$@" >> "$GO_LOG"
case "$1 $2" in
  "env GOVERSION") echo "go1.26.1" ;;
  "build "*)
    [ -z "$GO_FAILS" ] || { echo "undefined: nonsense"; exit 2; }
    while [ "$1" != -o ]; do shift; done
    echo "#!/bin/sh" > "$2" ;;
  "list -m") echo "$GO_MODULE" ;;
esac
"""


def binary(path: Path, text: str) -> Path:
    """An executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def saying(path: Path, words: str) -> Path:
    return binary(path, f"#!/bin/sh\necho '{words}'\n")


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No part is anywhere."""
    for module in parts.MODULES:
        for part in module.parts:
            monkeypatch.delenv(part.variable, raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv(parts.HIDDEN, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")


class TestFinding:
    def test_what_is_nowhere_is_missing_with_the_cure(self):
        with pytest.raises(parts.MissingError, match=r"kubectl v1\.36\.3 is not here: run `make controlplane`"):
            parts.find("kubectl")
        assert parts.missing(["cert-manager"]) == [
            "the config files of cert-manager are not here: run `make controlplane` (tests/controlplane/README.md)"
        ]

    def test_a_variable_wins_over_the_folder_of_envtest_over_path_over_the_cache(self, tmp_path, monkeypatch):
        (module,) = (each for each in parts.MODULES if each.folder == "kubernetes" and not each.optional)
        built = binary(module.cache / "kubectl", "")
        assert parts.find("kubectl") == built
        on_path = saying(tmp_path / "path" / "kubectl", "Client Version: v1.36.3")
        assert parts.find("kubectl") == on_path
        of_envtest = saying(tmp_path / "assets" / "kubectl", "Client Version: v1.33.0")
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
        assert parts.find("kubectl") == of_envtest
        named = saying(tmp_path / "mine", "Client Version: v1.20.0")
        monkeypatch.setenv("KUBECTL", str(named))
        assert parts.find("kubectl") == named

    @pytest.mark.parametrize("words", ["Client Version: v1.36.2", "v1.36.30", ""])
    def test_another_version_on_path_is_not_taken(self, words, tmp_path):
        saying(tmp_path / "path" / "kubectl", words)
        assert len(parts.missing(["kubectl"])) == 1

    def test_an_autoscaler_on_path_is_not_taken_because_it_does_not_tell_its_version(self, tmp_path):
        saying(tmp_path / "path" / "autoscaler-v0.50.0", "v0.50.0")
        assert len(parts.missing(["autoscaler-v0.50.0"])) == 1

    def test_the_folder_of_envtest_need_not_hold_what_envtest_does_not_have(self, tmp_path, monkeypatch):
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
        (module,) = (each for each in parts.MODULES if each.folder == "kubernetes" and not each.optional)
        built = binary(module.cache / "kube-controller-manager", "")
        assert parts.find("kube-controller-manager") == built

    def test_a_variable_that_names_nothing_is_an_error_and_not_passed_over(self, tmp_path, monkeypatch):
        saying(tmp_path / "path" / "etcd", "etcd Version: 3.6.8")
        monkeypatch.setenv("ETCD", str(tmp_path / "gone"))
        with pytest.raises(parts.MissingError, match=r"ETCD=.*/gone: no such file"):
            parts.find("etcd")

    @pytest.mark.parametrize(
        ("hidden", "missing"),
        [
            ("", []),
            ("etcd", ["etcd"]),
            ("etcd, kubectl", ["etcd", "kubectl"]),
            ("all", ["etcd", "kubectl", "cert-manager"]),
        ],
    )
    def test_what_is_here_can_be_taken_for_missing(self, tmp_path, monkeypatch, hidden: str, missing: list[str]):
        (cert_manager,) = (each for each in parts.MODULES if each.folder == "cert-manager")
        (cert_manager.cache / "config").mkdir(parents=True)
        monkeypatch.setenv("KUBECTL", str(binary(tmp_path / "mine", "")))
        saying(tmp_path / "path" / "etcd", "etcd Version: 3.6.8")
        monkeypatch.setenv(parts.HIDDEN, hidden)
        names = ["etcd", "kubectl", "cert-manager"]
        reasons = parts.missing(names)
        assert [name for name in names if any(name in reason for reason in reasons)] == missing
        assert all("not here: run `make controlplane`" in reason for reason in reasons)

    def test_no_file_of_a_registry_is_kept_beside_go_mod(self):
        kept = {path.name for path in parts.MODULES_FOLDER.rglob("*") if path.is_file()}
        assert kept == {"go.mod", "tools.go", "decider.go", "definitions.go", "made.go"}


class TestBuilding:
    @pytest.fixture
    def go(self, tmp_path, monkeypatch) -> Path:
        """A Go that builds empty scripts. Returns its log."""
        binary(tmp_path / "path" / "go", GO)
        module = tmp_path / "module"
        for folder, text in {"config": "kind: ConfigMap\n", "deploy/crds": "kind: CustomResourceDefinition\n"}.items():
            (module / folder).mkdir(parents=True)
            (module / folder / "config.yaml").write_text(text)
        monkeypatch.setenv("GO_LOG", str(tmp_path / "go.log"))
        monkeypatch.setenv("GO_MODULE", str(module))
        return tmp_path / "go.log"

    def build(self, *also: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.controlplane.build", *also]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, build: subprocess.Popen[str]) -> tuple[int, str, str]:
        said, complained = build.communicate(timeout=WITHIN_S)
        return build.returncode, said, complained

    def test_everything_is_built_once_also_by_two_at_once_and_then_found(self, go):
        for code, said, complained in [self.finish(each) for each in (self.build(), self.build())]:
            assert (code, complained) == (0, "")
            assert all(f"{name}: " in said for name in USUAL)
        built = [line for line in go.read_text().splitlines() if line.startswith("build ")]
        assert len(built) == len(USUAL)
        assert sum("gitVersion=v1.36.3" in line for line in built) == 3
        assert len(parts.missing(parts.NAMES)) == len(parts.OPTIONAL)
        assert parts.missing(USUAL) == []
        assert (parts.config("autoscaler-v0.50.0") / "serving" / "config.yaml").is_file()
        assert (parts.config("cert-manager") / "cert-manager" / "config.yaml").is_file()
        assert parts.missing(["cert-manager"]) == []

    def test_an_optional_part_is_built_where_it_is_named(self, go, tmp_path):
        kept = tmp_path / "module" / "manifests" / "charts" / "base" / "files"
        kept.mkdir(parents=True)
        (kept / "crd-all.gen.yaml").write_text("kind: CustomResourceDefinition\n")
        code, said, complained = self.finish(self.build("istiod"))
        assert (code, complained) == (0, "")
        assert "istiod: " in said
        assert [line.split()[0] for line in parts.missing(parts.NAMES)] == [
            "kubelet",
            "kube-proxy",
            "kube-scheduler",
            "kubeadm",
            "containerd",
            "containerd-shim-runc-v2",
            "ctr",
            "coredns",
            "metrics-server",
            "definitions-1.30",
            "autoscaler-v0.42.2",
            "decider-v0.42.2",
            "istiod-1.30",
            "keda-operator",
            "helm",
            "kubeconform",
            "actionlint",
            "h2spec",
        ], "which were not named"
        assert (parts.config("istiod") / "istio" / "crd-all.gen.yaml").is_file()

    def test_helm_is_built_alone_where_only_it_is_wanted(self, go):
        assert parts.missing(["helm"]) == [
            "helm v3.22.0 is not here: run `make helm` (tests/controlplane/README.md), or set HELM"
        ]
        code, said, complained = self.finish(self.build("--only", "helm"))
        assert (code, complained) == (0, "")
        assert "helm: " in said
        assert {line.split()[0] for line in parts.missing(parts.NAMES)} == {*parts.NAMES} - {"helm"}

    def test_a_build_that_fails_says_what_failed_and_leaves_nothing_to_be_found(self, go, monkeypatch):
        monkeypatch.setenv("GO_FAILS", "1")
        code, _, complained = self.finish(self.build())
        assert code == 1
        assert "etcd" in complained
        assert "undefined: nonsense" in complained
        assert len(parts.missing(parts.NAMES)) == len(parts.NAMES)

    def test_what_is_found_is_not_built_again(self, go, tmp_path):
        saying(tmp_path / "path" / "etcd", "etcd Version: 3.6.8")
        code, said, _ = self.finish(self.build())
        assert code == 0
        assert str(tmp_path / "path" / "etcd") in said
        assert "etcd" not in "".join(line for line in go.read_text().splitlines() if line.startswith("build "))


class TestMarker:
    def run(self, file: str = "test_plane.py", which: str = "", processes: int = 0, **environment: str) -> str:
        options = ["-p", "no:cacheprovider", "-n", str(processes)]
        command = [sys.executable, "-m", "pytest", *options, f"tests/controlplane/{file}", "-k", which]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        return done.stdout

    def test_a_test_without_its_parts_is_skipped_and_listed_with_the_cure(self):
        said = self.run()
        assert "2 skipped" in said
        assert "NOT TESTED, 2 tests: kube-apiserver v1.36.3 is not here: run `make controlplane`" in said

    @pytest.mark.parametrize("processes", [0, 2], ids=["one-process", "side-by-side"])
    def test_where_the_parts_are_required_it_fails(self, processes: int):
        said = self.run(processes=processes, EXTAUTHZ_REQUIRE="controlplane")
        assert "2 errors" in said
        assert "skipped" not in said

    def test_what_is_skipped_side_by_side_is_listed_too(self):
        assert "NOT TESTED, 2 tests: kube-apiserver v1.36.3 is not here" in self.run(processes=2)

    @pytest.mark.parametrize(("required", "expected"), [("controlplane", "1 skipped"), ("helm", "1 error")])
    def test_a_test_that_needs_helm_needs_nothing_else(self, required: str, expected: str):
        said = self.run("../unit/render/test_chart.py", "uninstalling", EXTAUTHZ_REQUIRE=required)
        assert expected in said
        assert "helm v3.22.0 is not here: run `make helm`" in said

    @pytest.mark.parametrize(
        ("required", "expected"),
        [("controlplane", "4 skipped"), ("istiod", "2 skipped, 2 errors"), ("istiod,istiod-1.30", "4 errors")],
    )
    def test_an_optional_part_is_required_only_by_its_own_name(self, tmp_path, required: str, expected: str):
        there = str(binary(tmp_path / "there", "#!/bin/sh\n"))
        others = {part.variable: there for each in parts.MODULES if not each.optional for part in each.parts}
        said = self.run("test_istio.py", EXTAUTHZ_REQUIRE=required, **others)
        assert expected in said
        assert re.search(r"istiod v\S+ is not here: run `make istiod`", said)

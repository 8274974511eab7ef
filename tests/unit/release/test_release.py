"""What `make release` makes beside packages, and what `make sign` and `make publish` would run."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tools.release import __main__ as release
from tools.release import docs, metadata, publish, slim

Tree = Any

ROOT = Path(__file__).parents[3]
URL = "https://git.example.com/acme/extauthz/releases/download/v1.2.3/kubectl-wsq-1.2.3.tar.gz"
CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- **A thing** ([a](https://example.com/a)): it does `this`. And more
  of it.
- Another thing.

### Fixed

- A fault.

## [1.2.3] - 2026-01-01

### Changed

- Old.
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "extauthz-1.2.3-py3-none-any.whl"
    file.write_bytes(b"a wheel")
    return file


def test_krew_s_manifest_has_what_krew_asks_for():
    tree = yaml.safe_load(metadata.krew_manifest("1.2.3", URL, "ab" * 32))
    assert (tree["apiVersion"], tree["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert tree["metadata"]["name"] == "wsq", "kubectl wsq, and the file's name"
    spec = tree["spec"]
    assert (spec["version"], spec["homepage"]) == ("v1.2.3", "https://git.example.com/acme/extauthz")
    assert len(spec["shortDescription"]) <= 80
    (platform,) = spec["platforms"]
    assert (platform["uri"], platform["sha256"], platform["bin"]) == (URL, "ab" * 32, "kubectl-wsq")


def test_the_plugin_is_a_launcher_that_finds_the_wheel_beside_it_through_a_link(wheel: Path, tmp_path: Path):
    archive, store = tmp_path / "plugin.tar.gz", tmp_path / "store"
    metadata.plugin_archive(wheel, archive)
    store.mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(store)], check=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").write_text('#!/bin/sh\necho "$@"\n')
    (tools / "uv").chmod(0o755)
    link = tmp_path / "kubectl-wsq"
    link.symlink_to(store / "kubectl-wsq")
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    said = subprocess.run([str(link), "top", "acme"], env=path, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["tool", "run", "--quiet", "--from", str(store / wheel.name), "kubectl-wsq", "top", "acme"]


def test_changes_are_the_first_sentences_of_the_version_or_of_what_is_not_released_yet():
    assert metadata.changes(CHANGELOG, "2.0.0") == [
        {"kind": "added", "description": "A thing (a):"},
        {"kind": "added", "description": "Another thing."},
        {"kind": "fixed", "description": "A fault."},
    ]
    assert metadata.changes(CHANGELOG, "1.2.3") == [{"kind": "changed", "description": "Old."}]
    assert metadata.notes(CHANGELOG, "1.2.3") == "### Changed\n\n- Old.\n"
    with pytest.raises(ValueError, match="neither a section"):
        metadata.notes("# Changelog\n", "1.2.3")


def test_artifact_hub_is_told_of_definitions_changes_licence_and_image():
    chart = yaml.safe_load((ROOT / "charts/extauthz/Chart.yaml").read_text())
    definitions = [yaml.safe_load(file.read_text()) for file in (ROOT / "charts/extauthz/definitions").glob("*.yaml")]
    found = metadata.changes((ROOT / "CHANGELOG.md").read_text(), release.version())
    assert found
    told = metadata.annotated(chart, changes=found, definitions=definitions, image="registry.test/extauthz:1")
    assert {**told, "annotations": None} == {**chart, "annotations": None}
    annotations = told["annotations"]
    assert {each["kind"] for each in yaml.safe_load(annotations["artifacthub.io/crds"])} == {
        "WorkspaceQuota",
        "WorkspaceLedger",
    }
    assert yaml.safe_load(annotations["artifacthub.io/changes"]) == found
    assert yaml.safe_load(annotations["artifacthub.io/images"]) == [
        {"name": "extauthz", "image": "registry.test/extauthz:1"}
    ]
    assert all(isinstance(each, str) for each in annotations.values()), "as annotations are"
    without = metadata.annotated(chart, changes=[], definitions=[], image="")
    assert "artifacthub.io/images" not in without["annotations"]


def test_the_repository_s_file_names_it_or_says_what_is_missing():
    assert yaml.safe_load(metadata.repository("0b-1")) == {"repositoryID": "0b-1"}
    assert yaml.safe_load(metadata.repository("")) is None


def test_plugin_and_checksums_are_of_what_is_there(wheel: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RELEASE_URL", "https://git.example.com/acme/extauthz/releases/download/v1")
    dist = tmp_path / "dist"
    dist.mkdir()
    release.plugin(wheel, dist)
    release.checksums(dist)
    archive = dist / f"kubectl-wsq-{release.version()}.tar.gz"
    (platform,) = yaml.safe_load((dist / "wsq.yaml").read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"].endswith(f"/releases/download/v1/{archive.name}")
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True, capture_output=True)
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == 2


def test_what_is_signed_is_the_list_of_checksums_by_nobody_s_key_or_by_one(tmp_path: Path):
    with pytest.raises(publish.NotPublishedError, match="make release"):
        publish.signing(tmp_path, {})
    (tmp_path / "SHA256SUMS").touch()
    without = publish.signing(tmp_path, {})
    assert without[:3] == ["cosign", "sign-blob", "--yes"]
    assert "--key" not in without
    assert publish.signing(tmp_path, {"COSIGN_KEY": "k.pem"})[3:5] == ["--key", "k.pem"]


def test_a_tag_is_published_with_all_files_and_pushed_where_a_registry_is_named(tmp_path: Path):
    tag, notes = {"GITHUB_REF_NAME": f"v{release.version()}"}, tmp_path.with_name("notes.md")
    with pytest.raises(publish.NotPublishedError, match="the tag is v9"):
        publish.publishing(tmp_path, notes, {"GITHUB_REF_NAME": "v9"})
    with pytest.raises(publish.NotPublishedError, match="make sign"):
        publish.publishing(tmp_path, notes, tag)
    for name in ("SHA256SUMS", publish.BUNDLE, "a.whl"):
        (tmp_path / name).touch()
    (tmp_path / "0.image.tar.gz").touch()
    (page,) = publish.publishing(tmp_path, notes, tag)
    assert page[:4] == ["gh", "release", "create", tag["GITHUB_REF_NAME"]]
    assert page[-3:] == [str(tmp_path / name) for name in ("SHA256SUMS", publish.BUNDLE, "a.whl")]
    pushed = publish.publishing(tmp_path, notes, {**tag, "REGISTRY": "registry.test/acme"})
    assert [command[1] for command in pushed[1:]] == ["push", "load", "tag", "push"], "another job has built it"
    assert pushed[1][-1] == "oci://registry.test/acme/charts"


def test_without_the_tool_the_message_names_it(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "SHA256SUMS").touch()
    monkeypatch.setattr(publish, "DIST", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert publish.main(["sign"]) == 1
    assert "cosign is not installed" in capsys.readouterr().err


KEPT = {
    "kubernetes/__init__.py", "kubernetes/aio/__init__.py", "kubernetes/aio/client/__init__.py",
    "kubernetes/aio/client/rest.py", "kubernetes/aio/client/models/__init__.py",
    "envoy/__init__.py", "envoy/used_pb2.py", "other/kept.so",
    "other/unloaded.py",
}  # fmt: skip
LEFT_OUT = {
    "kubernetes/aio/client/models/v1_pod.py", "kubernetes/client/api/core_v1_api.py", "envoy/unused_pb2.py",
    "other/fast.pyx", "other/fast.c", "other/fast.pyi",
}  # fmt: skip


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As pip leaves them, with a gate that loads two of them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    texts = dict.fromkeys(KEPT | LEFT_OUT, "")
    texts |= {f"extauthz/cli/{command}.py": "" for command in slim.ENTRANCES}
    texts |= {"extauthz/serve/service/app.py": "import envoy.used_pb2, kubernetes.aio.client.rest\n"}
    texts |= {f"{package}/__init__.py": "" for package in ("extauthz", "extauthz/cli", "extauthz/serve/service")}
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    stale = tmp_path / "other" / "__pycache__" / "unloaded.cpython-311.pyc"
    stale.parent.mkdir()
    stale.touch()
    return tmp_path


def files(packages: Path) -> set[str]:
    return {file.relative_to(packages).as_posix() for file in packages.rglob("*.*") if file.is_file()}


def test_what_the_gate_does_not_load_of_the_large_packages_goes(packages: Path):
    slim.slim(packages, strip=None)
    assert files(packages) >= KEPT
    assert LEFT_OUT & files(packages) == set()


def test_what_the_gate_loads_is_compiled_and_nothing_else(packages: Path):
    slim.slim(packages, strip=None)
    compiled = {file.name.partition(".")[0] for file in packages.rglob("*.pyc")}
    assert {"app", "used_pb2", "rest", *slim.ENTRANCES} <= compiled
    assert "unloaded" not in compiled


def test_bytecode_holds_whatever_time_its_source_has(packages: Path):
    slim.slim(packages, strip=None)
    beside = packages / f"extauthz/serve/service/__pycache__/app.{sys.implementation.cache_tag}.pyc"
    assert int.from_bytes(beside.read_bytes()[4:8], "little") == 0b01  # by hash, and not checked (PEP 552)


def test_compiled_modules_are_stripped(packages: Path):
    (packages / "other/fast.so").touch()
    strip = packages / "strip"
    strip.write_text(f'#!/bin/sh\necho "$@" > {packages / "told"}\n')
    strip.chmod(0o755)
    slim.slim(packages, strip=str(strip))
    flag, *stripped = (packages / "told").read_text().split()
    assert flag == "--strip-unneeded"
    assert set(stripped) == {str(packages / one) for one in ("other/fast.so", "other/kept.so")}


def test_the_site_is_built_strictly(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        "tools/mkdocs.yml",
        "--site-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "upgrade" / "index.html").is_file()


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("see [Envoy](../envoy/README.md#x)", "see Envoy (`envoy/README.md`)"),
        ("[`envoy/a.yaml`](../envoy/a.yaml)", "`envoy/a.yaml`"),
        ("[document](openapi.yaml)", "document (`docs/openapi.yaml`)"),
        ("[here](api.md#a) and [there](https://example.com/../a)", "[here](api.md#a) and [there](https://example.com/../a)"),
    ],
)  # fmt: skip
def test_a_link_out_of_the_pages_becomes_its_path(text: str, becomes: str):
    assert docs.on_page_markdown(text, page=at("render.md")) == becomes


def test_from_a_folder_of_docs_a_page_of_docs_is_a_page():
    text = "[a](../api.md#x), [b](ledger.md), [c](../../Makefile), [d](../openapi.yaml)"
    becomes = "[a](../api.md#x), [b](ledger.md), c (`Makefile`), d (`docs/openapi.yaml`)"
    assert docs.on_page_markdown(text, page=at("internals/design.md")) == becomes


def at(page: str) -> SimpleNamespace:
    """A page of MkDocs there."""
    return SimpleNamespace(file=SimpleNamespace(src_uri=page))


@pytest.mark.helm
def test_without_a_way_out_the_image_goes_to_the_own_registry_and_the_chart_is_installed_with_it(tmp_path: Path):
    release.chart(tmp_path)
    archive = tmp_path / f"extauthz-{release.version()}-amd64.image.tar.gz"
    archive.write_bytes(gzip.compress(b"an image"))
    release.offline(tmp_path)
    release.checksums(tmp_path)
    tools, said = tmp_path / "tools", tmp_path / "said"
    tools.mkdir()
    for tool in ("podman", "helm"):
        reads = "grep -c '^webhook:' >> $SAID" if tool == "helm" else ":"
        (tools / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> "$SAID"\n{reads}\n')
        (tools / tool).chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin", "SAID": str(said), "ENGINE": "podman"}
    command = [str(tmp_path / "install-offline.sh"), "registry.test/team", "--set", "webhook.failurePolicy=Ignore"]
    subprocess.run(command, env=env, check=True, cwd="/")
    name = f"extauthz:{release.version()}"
    assert said.read_text().splitlines() == [
        "podman version",
        "podman load",
        f"podman tag docker.io/library/{name} registry.test/team/{name}",
        f"podman push registry.test/team/{name}",
        f"helm upgrade --install extauthz extauthz-{release.version()}.tgz --namespace extauthz-system"
        " --create-namespace --values - --set image.repository=registry.test/team/extauthz"
        " --set webhook.failurePolicy=Ignore",
        "1",
    ]
    archive.write_bytes(b"another")
    assert subprocess.run(command, env=env, check=False, capture_output=True).returncode != 0, "sums are checked first"
    assert len(said.read_text().splitlines()) == 7
    assert subprocess.run(command[:1], env=env, check=False, capture_output=True).returncode == 64

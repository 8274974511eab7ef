"""docs/internals/release.md: the bundle is installed where no registry is reached but one's own.

The node has none of our images. Its company has a registry, whose authority each machine trusts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from extauthz.serve.selfsigned import issuing
from tests.cluster import cluster as clusters
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.place import ADDRESS, Place
from tests.cluster.typed import Person
from tests.compose import engine
from tests.controlplane.parts import find
from tests.release.conftest import index

__all__ = ["index"]
pytestmark = [pytest.mark.cluster, pytest.mark.controlplane("registry")]

BUILT_WITHIN_S = 1800
PAGE = (ROOT / "docs/internals/release.md").read_text().partition("\n## Without a way out\n")[2]
UNPACK, INSTALL = re.findall(r"```sh\n(.*)\n(.*)\n```", PAGE)[0]
(REGISTRY,) = re.findall(r"^\S+ ([^/]+)/", INSTALL)
SERVED = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "{address}:443", tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}}}
"""
QUOTA = "{apiVersion: extauthz.dev/v1alpha1, kind: WorkspaceQuota, metadata: {name: acme}, spec: {hard: {pods: '3'}}}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that has no image of ours, and a folder /etc of its own."""
    place = Place(tmp_path_factory.mktemp("offline") / "one")
    try:
        running = clusters.up(place)
        running.images("rm", "--sync", f"{engine.official(clusters.IMAGE)}:latest")
        assert "extauthz" not in running.images("ls", "--quiet")
        for name in ("etc", "work"):
            (place.folder / name).mkdir()
        etc = f"lowerdir=/etc,upperdir={place.folder / 'etc'},workdir={place.folder / 'work'}"
        running.inside("mount", "-t", "overlay", "overlay", "-o", etc, "/etc")
        yield running
    finally:
        clusters.down(place)


@pytest.fixture(scope="module")
def registry(node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The company's, by the name that the page gives it. The node resolves that name, and trusts its authority."""
    folder, now = tmp_path_factory.mktemp("registry"), datetime.now(UTC)
    company = issuing.authority(now, timedelta(days=1))
    certificate, key = issuing.serving(company, [REGISTRY], now, timedelta(hours=12)).pem
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    (folder / "config.yaml").write_text(SERVED.format(folder=folder, address=ADDRESS))
    (folder / "company.crt").write_bytes(issuing.pem(company.certificate))
    node.inside("cp", f"{folder}/company.crt", "/etc/ssl/certs/")
    node.inside("sh", "-c", f"echo {ADDRESS} {REGISTRY} >> /etc/hosts")
    node.end_part("containerd")
    command = f"{find('registry')} serve {folder}/config.yaml"
    node.inside("sh", "-c", f"setsid {command} < /dev/null > {folder}/log 2>&1 &")
    return REGISTRY


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this working tree."""
    folder = tmp_path_factory.mktemp("bundle")
    subprocess.run(["make", "bundle", f"DIST={folder / 'dist'}"], cwd=ROOT, check=True, timeout=BUILT_WITHIN_S)
    return folder / "dist" / "bundle.tar.gz"


def test_the_bundle_installs_by_ones_own_registry_where_no_other_is_reached(
    index: None, bundle: Path, node: Cluster, registry: str, tmp_path: Path
):
    administrator = Person(node, tmp_path / "person", inside=True)
    administrator.types(f"ln -s {bundle} .")
    administrator.types(UNPACK)
    administrator.types(f"{INSTALL},settings.window-s=10")
    rolled = "kubectl -n extauthz-system rollout status deployment extauthz --timeout=300s | tail -1"
    administrator.sees(rolled, "successfully rolled out")
    administrator.sees("kubectl -n extauthz-system get events", f'Successfully pulled image "{registry}/team/extauthz:')
    administrator.types("kubectl create namespace shop && kubectl label namespace shop workspace=acme")
    administrator.types(f'kubectl apply -f - <<< "{QUOTA}"')
    administrator.sees("kubectl wait --for=condition=Ready wsq/acme", "condition met")
    refused = administrator.run(f"kubectl -n shop create deployment web --image={registry}/web --replicas=4")
    assert "exceeded workspace quota: acme" in refused.stdout, refused.stdout
    command = f"{sys.executable} extauthz-*.pyz"
    administrator.sees(f"{command} doctor --kubeconfig $KUBECONFIG | grep 'webhook authority'", " ok ")

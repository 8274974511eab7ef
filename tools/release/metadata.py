"""What lists of others read of a release: krew's manifest of the plugin, and Artifact Hub's annotations of the chart.

Sources: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest,
https://artifacthub.io/docs/topics/annotations/helm, https://artifacthub.io/docs/topics/repositories/helm-charts.
"""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Tree: TypeAlias = Any

PLUGIN = "wsq"
KINDS = {"Added": "added", "Changed": "changed", "Deprecated": "deprecated", "Removed": "removed", "Fixed": "fixed",
         "Security": "security"}  # fmt: skip
"""Headings of Keep a Changelog, as Artifact Hub calls them."""
LONGEST = 200
"""Characters of a change."""
LAUNCHER = """\
#!/bin/sh
# The plugin is a Python package: uv or pipx runs the wheel that lies beside this file.
here=$(dirname "$(readlink -f "$0")")
wheel=$(echo "$here"/*.whl)
if command -v uv > /dev/null; then exec uv tool run --quiet --from "$wheel" kubectl-wsq "$@"; fi
if command -v pipx > /dev/null; then exec pipx run --spec "$wheel" kubectl-wsq "$@"; fi
echo "kubectl wsq: install uv or pipx; or: pip install $wheel" >&2
exit 69
"""


def plugin_archive(wheel: Path, target: Path) -> None:
    """What krew unpacks: the launcher and the wheel. The same wheel gives the same bytes."""
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=9) as archive:
        for name, content, mode in (("kubectl-wsq", LAUNCHER.encode(), 0o755), (wheel.name, wheel.read_bytes(), 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))


def krew_manifest(version: str, url: str, sha256: str) -> str:
    """The manifest, for `kubectl krew install --manifest` or an index.

    Args:
        url: of the archive.
        sha256: of the archive.
    """
    system = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]}
    tree = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{version}",
            "homepage": url.partition("/releases/")[0],
            "shortDescription": "Ask the quota gate extauthz: who uses what, what fits, why not",
            "description": "explain, check and top of WorkspaceQuotas, and doctor.\n",
            "caveats": "It needs uv or pipx, and Python 3.11 to 3.14.\n",
            "platforms": [{"selector": system, "uri": url, "sha256": sha256, "bin": "kubectl-wsq"}],
        },
    }
    return yaml.safe_dump(tree, sort_keys=False)


def annotated(chart: Tree, *, changes: list[Tree], definitions: list[Tree], image: str) -> Tree:
    """Chart.yaml with what Artifact Hub shows.

    Args:
        image: where the release's image is; empty: it is in no registry.
    """
    crds = [
        {
            "kind": each["spec"]["names"]["kind"],
            "version": each["spec"]["versions"][0]["name"],
            "name": each["metadata"]["name"],
            "displayName": each["spec"]["names"]["kind"],
            "description": f"`kubectl explain {each['spec']['names']['singular']}`",
        }
        for each in definitions
    ]
    told = {
        "artifacthub.io/license": "Apache-2.0",
        "artifacthub.io/category": "integration-delivery",
        "artifacthub.io/prerelease": str(chart["version"].startswith("0.")).lower(),
        "artifacthub.io/crds": yaml.safe_dump(crds, sort_keys=False),
        "artifacthub.io/changes": yaml.safe_dump(changes, sort_keys=False, allow_unicode=True),
    }
    if image:
        told["artifacthub.io/images"] = yaml.safe_dump([{"name": "extauthz", "image": image}])
    return {**chart, "annotations": {**chart.get("annotations", {}), **told}}


def repository(identity: str) -> str:
    """artifacthub-repo.yml. ``identity``: what Artifact Hub gave the repository; empty: not known yet."""
    said = f"repositoryID: {identity}\n" if identity else "# repositoryID: what Artifact Hub shows for the repository\n"
    return f"# Beside the chart's index, or pushed to its OCI repository with the tag artifacthub.io.\n{said}"


def changes(changelog: str, version: str) -> list[Tree]:
    """The changes of a version, or of what is not released yet: ``kind`` and the first sentence of each."""
    section = _section(changelog, version)
    found = []
    for heading, text in re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL):
        for item in re.findall(r"^- (.*?)(?=^- |\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", " ".join(item.split()))
            sentence = re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0]
            found.append({"kind": KINDS[heading], "description": sentence[:LONGEST]})
    return found


def notes(changelog: str, version: str) -> str:
    """What a release page says: the section of the version."""
    return _section(changelog, version).strip() + "\n"


def _section(changelog: str, version: str) -> str:
    for name in (version, "Unreleased"):
        if found := re.search(rf"^## \[{re.escape(name)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL):
            return found[1]
    raise ValueError(f"CHANGELOG.md has neither a section [{version}] nor [Unreleased]")

"""``make sign`` and ``make publish``: what the workflow on a tag does with ``dist/``, after ``make release``.

``sign`` has cosign sign the list of checksums: without a key, by the identity of the workflow (or of who runs it, in a
browser); with the variable COSIGN_KEY by that key. ``publish`` makes the release of the tag with all files, and pushes
chart and image where REGISTRY names a registry.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.parts import find
from tools.release import metadata
from tools.release.__main__ import DIST, ROOT, WITHIN_S, version

SUMS = "SHA256SUMS"
BUNDLE = f"{SUMS}.sigstore.json"


class NotPublishedError(Exception):
    """What is missing, and the cure."""


def signing(dist: Path, environment: Mapping[str, str]) -> list[str]:
    """The command that signs."""
    if not (dist / SUMS).is_file():
        raise NotPublishedError(f"{dist / SUMS} is not there: run `make release` first")
    key = environment.get("COSIGN_KEY", "")
    with_key = ["--key", key] if key else []
    return ["cosign", "sign-blob", "--yes", *with_key, "--bundle", str(dist / BUNDLE), str(dist / SUMS)]


def publishing(dist: Path, notes: Path, environment: Mapping[str, str]) -> list[list[str]]:
    """The commands that publish, in order."""
    tag = environment.get("GITHUB_REF_NAME", "")
    if tag != f"v{version()}":
        raise NotPublishedError(
            f"the tag is {tag or 'not there'}, and the version v{version()}: set it in pyproject.toml"
        )
    if not (dist / BUNDLE).is_file():
        raise NotPublishedError(f"{dist / BUNDLE} is not there: run `make sign` first")
    files = sorted(str(file) for file in dist.iterdir())
    commands = [["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes-file", str(notes), *files]]
    if registry := environment.get("REGISTRY", ""):
        image = f"{registry}/extauthz:{version()}"
        commands += [
            ["helm", "push", str(dist / f"extauthz-{version()}.tgz"), f"oci://{registry}/charts"],
            # Another job has built it: only the file is here.
            *(["docker", "load", "--input", file] for file in files if file.endswith(".image.tar.gz")),
            ["docker", "tag", f"extauthz:{version()}", image],
            ["docker", "push", image],
        ]
    return commands


def main(arguments: list[str]) -> int:
    """``sign`` or ``publish``; 1 with a sentence if something is missing."""
    try:
        if arguments == ["sign"]:
            _run(signing(DIST, os.environ))
            return 0
        with tempfile.TemporaryDirectory(prefix="extauthz-release-") as name:
            notes = Path(name) / "notes.md"
            notes.write_text(metadata.notes((ROOT / "CHANGELOG.md").read_text(), version()))
            for command in publishing(DIST, notes, os.environ):
                _run(command)
    except NotPublishedError as error:
        print(f"make {' '.join(arguments)}: {error}", file=sys.stderr)
        return 1
    return 0


def _run(command: list[str]) -> None:
    if command[0] == "helm":
        command = [str(find("helm")), *command[1:]]
    try:
        subprocess.run(command, check=True, timeout=WITHIN_S)
    except FileNotFoundError:
        raise NotPublishedError(f"{command[0]} is not installed") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

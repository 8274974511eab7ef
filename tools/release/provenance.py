"""Of what, by whom and how a release was built: an in-toto statement with SLSA's predicate.

Sources: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance.
It is not signed here: the workflow on a tag signs it, with no key that anybody keeps (docs/internals/release.md).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Tree: TypeAlias = Any

BUILD_TYPE = "urn:extauthz:build:make-release:v1"
HERE = "urn:extauthz:builder:a-developer-s-machine"


class Built(NamedTuple):
    """One run of ``make release``."""

    commit: str
    """With ``-dirty`` where sources were changed since."""
    began: datetime
    ended: datetime
    options: Mapping[str, bool]


def statement(files: Sequence[Path], built: Built, inputs: Sequence[Path], environment: Mapping[str, str]) -> str:
    """The statement in JSON.

    Args:
        files: what was built.
        inputs: what decides about dependencies, as constraints.txt.
        environment: GitHub's variables say which run of which workflow this is.
    """
    source = f"{environment.get('GITHUB_SERVER_URL', '')}/{environment.get('GITHUB_REPOSITORY', '')}".strip("/")
    dependencies = [{"uri": f"git+{source or 'urn:extauthz'}", "digest": {"gitCommit": built.commit}}]
    dependencies += [{"name": each.name, "digest": {"sha256": sha256(each)}} for each in inputs]
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"target": "make release", **built.options},
            "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {"id": _builder(source, environment)},
            "metadata": {
                "invocationId": _run(source, environment),
                "startedOn": _time(built.began),
                "finishedOn": _time(built.ended),
            },
        },
    }
    told = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": sha256(each)}} for each in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    return json.dumps(told, indent=2) + "\n"


def sha256(file: Path) -> str:
    """In hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _builder(source: str, environment: Mapping[str, str]) -> str:
    if "GITHUB_WORKFLOW_REF" not in environment:
        return HERE
    return f"{environment['GITHUB_SERVER_URL']}/{environment['GITHUB_WORKFLOW_REF']}" if source else HERE


def _run(source: str, environment: Mapping[str, str]) -> str:
    run, attempt = environment.get("GITHUB_RUN_ID", ""), environment.get("GITHUB_RUN_ATTEMPT", "1")
    return f"{source}/actions/runs/{run}/attempts/{attempt}" if source and run else ""


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

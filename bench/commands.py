"""How long a command of the command line takes, over a Python that does nothing: processor time of whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .figures import Figure, Goal, figure

FULL, QUICK = 15, 2
"""Rounds."""

HELP, CHECK = Goal(8.0), Goal(15.0)

QUOTAS = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec: {namespaceSelector: {matchLabels: {workspace: acme}}, hard: {requests.cpu: "10"}, mode: Enforce}
"""
STATE = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {workspace: acme}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: u1, resourceVersion: "5", generation: 1}
  spec:
    replicas: 1
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  status: {replicas: 1, observedGeneration: 1}
"""


def measure(rounds: int, say: Callable[[str], None]) -> list[Figure]:
    """Help of each command that people type, and a check on files."""
    with tempfile.TemporaryDirectory(prefix="extauthz-bench-") as name:
        folder = Path(name)
        (folder / "quotas.yaml").write_text(QUOTAS)
        (folder / "state.yaml").write_text(STATE)
        files = ["--quotas", str(folder / "quotas.yaml"), "--state", str(folder / "state.yaml")]
        asked = ["check", "deploy/web", "-n", "shop", "--replicas", "2", *files]
        commands = {
            **{f"`extauthz {one} --help`": ([one, "--help"], HELP) for one in ("check", "top", "explain", "serve")},
            "`extauthz check` on files": (asked, CHECK),
        }
        floors: list[float] = []
        spent: dict[str, list[float]] = {one: [] for one in commands}
        for number in range(rounds):
            floors.append(_processor_ms(["-c", "pass"]))
            for one, (words, _) in commands.items():
                spent[one].append(_processor_ms(["-m", "extauthz.cli", *words]))
            say(f"commands: round {number + 1} of {rounds}")
    return [
        figure(f"{one} over `python -c pass`", spent[one], floors, goal, unit=" ms")
        for one, (_, goal) in commands.items()
    ]


def _processor_ms(arguments: Sequence[str]) -> float:
    """Of one process, from its start to its end."""
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{arguments} ended with {child.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3

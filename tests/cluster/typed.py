"""Who types: lines of a shell, and what they show, kept as a transcript."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.cluster import ROOT, Cluster
from tests.controlplane.parts import find
from tests.waiting import eventually

WITHIN_S = 300.0
LINE_WITHIN_S = 400.0
SHARED = ("charts", "deploy", "istio")


class Person:
    """Types in a folder that has this working tree's charts, with kubectl, helm and extauthz on PATH.

    Args:
        transcript: what is typed and shown goes to its end; ``None``: nowhere.
        inside: on the node, which has no way out.
    """

    def __init__(self, cluster: Cluster, folder: Path, transcript: Path | None = None, *, inside: bool = False) -> None:
        self._folder, self._transcript = folder, transcript
        self._way = cluster.way_in() if inside else []
        self._kubeconfig = cluster.place.admin if inside else cluster.kubeconfig
        (folder / "bin").mkdir(parents=True)
        (folder / ".kube").mkdir()
        (folder / ".kube" / "config").symlink_to(cluster.kubeconfig)
        for name in SHARED:
            (folder / name).symlink_to(ROOT / name)
        self._program("kubectl", f'exec {find("kubectl")} "$@"')
        self._program("helm", f'exec {find("helm")} "$@"')
        self._program("extauthz", f'exec {sys.executable} -m extauthz.cli "$@"')

    def _program(self, name: str, script: str) -> None:
        file = self._folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def types(self, line: str) -> str:
        """What is shown.

        Raises:
            AssertionError: the line fails.
        """
        done = self.run(line)
        self._keep(line, done.stdout)
        assert done.returncode == 0, f"{line}: {done.stdout}"
        return done.stdout

    def sees(self, line: str, *words: str) -> str:
        """What a line shows once it shows all these words: only that is kept."""
        last = ""

        def holds() -> bool:
            nonlocal last
            last = self.run(line).stdout
            return all(word in last for word in words)

        eventually(holds, lambda: f"{line}: {words} is not in {last}", within_s=WITHIN_S, every_s=0.5)
        self._keep(line, last)
        return last

    def heading(self, text: str) -> None:
        """Of what follows in the transcript."""
        if self._transcript:
            with self._transcript.open("a") as file:
                file.write(f"\n## {text}\n\n")

    def _keep(self, line: str, shown: str) -> None:
        if self._transcript:
            with self._transcript.open("a") as file:
                file.write(f"    $ {line.rstrip()}\n".replace("\n", "\n    ").rstrip(" "))
                file.write("".join(f"    {each}".rstrip() + "\n" for each in shown.splitlines()))

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """What is shown, on both streams, and the exit code."""
        environment = {
            **os.environ,
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._kubeconfig),
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [*self._way, "bash", "-o", "pipefail", "-c", f"exec 2>&1\ncd {self._folder}\n{line}"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LINE_WITHIN_S,
            check=False,
        )

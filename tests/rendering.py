"""Files whose first line says what prints them: ``make render`` writes them, and tests hold them equal to that.

``extauthz render …`` prints Envoy's configuration, `helm template …` what the chart makes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.controlplane.parts import find

ROOT = Path(__file__).parents[1]
FOLDERS = ("envoy", "istio", "deploy", "charts")
WITHIN_S = 120


class Autoscaler(NamedTuple):
    """Whose pod the chart puts the gate into, as its project ships it."""

    namespace: str
    deployment: str
    container: str
    account: str


AUTOSCALERS = {
    "keda": Autoscaler("keda", "keda-operator", "keda-operator", "keda-operator"),
    "knative": Autoscaler("knative-serving", "autoscaler", "autoscaler", "controller"),
    "hpa-controller": Autoscaler("kube-system", "extauthz-hpa-controller", "hpa-controller", "extauthz-hpa-controller"),
}
"""By the word of the chart's value ``place``."""

MADE_BY = "# Made by `{}`; change {} rather than this file.\n"


def shown() -> list[Path]:
    """All of them; Envoy's first, because the chart has some in it."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.yaml"))]
    made = [file for file in files if file.read_text().startswith("# Made by `")]
    return sorted(made, key=lambda file: words_of(file)[0])


def words_of(file: Path) -> list[str]:
    """The command that prints it."""
    return shlex.split(file.read_text().partition("`")[2].partition("`")[0])


def rendered(file: Path) -> str:
    """What that command prints now."""
    program, *words = words_of(file)
    if program == "helm":
        return MADE_BY.format(shlex.join([program, *words]), "the chart") + helm(*words)
    return _run([sys.executable, "-m", "extauthz.cli", *words])


def helm(*words: str) -> str:
    """Its output, from the repository's root.

    Raises:
        RuntimeError: it failed, with what it complained of.
    """
    return _run([str(find("helm")), *words]).removeprefix("---\n")


def chart(*words: str, place: str = "service", namespace: str = "") -> str:
    """What the chart makes for a place; in the namespace of its autoscaler if no other is named."""
    there = namespace or (AUTOSCALERS[place].namespace if place in AUTOSCALERS else "extauthz-system")
    return helm("template", "extauthz", "charts/extauthz", "--namespace", there, "--set", f"place={place}", *words)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> None:
    """Write them anew, the version of the chart first."""
    described = ROOT / "charts/extauthz/Chart.yaml"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described.write_text(
        re.sub(r"^(version|appVersion): .*", rf"\1: {version}", described.read_text(), flags=re.MULTILINE)
    )
    for file in shown():
        file.write_text(rendered(file))


if __name__ == "__main__":
    main()

"""The definitions, by the oldest API server's own judgement: what it takes for too costly, later ones may take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.controlplane.parts import find

ROOT = Path(__file__).parents[2]
DEFINITIONS = sorted((ROOT / "charts" / "extauthz" / "definitions").glob("*.yaml"))
JUDGE = "definitions-1.30"

pytestmark = pytest.mark.controlplane(JUDGE)


def judged(text: str) -> str:
    """What is wrong with a definition; empty if nothing is. The API server itself says which versions are stored."""
    text += "\nstatus: {storedVersions: [v1alpha1]}\n"
    done = subprocess.run([str(find(JUDGE))], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize("file", DEFINITIONS, ids=lambda file: file.stem)
def test_kubernetes_1_30_takes_the_definitions(file: Path):
    assert judged(file.read_text()) == ""


def test_a_rule_about_an_amount_would_be_refused():
    (file,) = (each for each in DEFINITIONS if each.stem == "workspacequotas")
    rule = '\n                    x-kubernetes-validations: [{rule: "type(self) == int || isQuantity(self)"}]'
    text = file.read_text().replace("additionalProperties: &amount", f"additionalProperties: &amount{rule}")
    assert "estimated rule cost" in judged(text)

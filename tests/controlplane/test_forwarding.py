"""What ``--port-forward`` makes of a real kubectl's refusal. To forward takes a kubelet, and there is none here."""

from __future__ import annotations

import pytest

from extauthz.cli import main
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane

pytestmark = pytest.mark.controlplane


def test_a_service_that_is_not_there_is_told_in_kubectls_words(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(find("kubectl").parent))
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    assert main(["top", "--port-forward", "default/no-gate"]) == 69
    error = capsys.readouterr().err
    assert 'services "no-gate" not found' in error
    assert "name another with --port-forward" in error

"""A cluster whose API server asks the gate by its admission webhook. No Envoy asks it.

kube-controller-manager goes through an Envoy that only knows where metrics are.
"""

from __future__ import annotations

import base64
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

import yaml

from extauthz.core.intake.admission import NAME
from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Profile
from tests.controlplane.manager import ControllerManager
from tests.controlplane.metricsdesk import only_route
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.world import World
from tests.waiting import eventually

PAGE: Final = Path(__file__).parents[2] / "docs" / "webhook.md"
DENIED = f'admission webhook "{NAME}" denied the request: '


def rendered(*options: str, more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What the command of docs/webhook.md prints, with these values in place of its own, and with more flags."""
    (line,) = re.findall(r"^(extauthz render webhook .*) \| kubectl apply -f -$", PAGE.read_text(), re.MULTILINE)
    words = line.split()[1:]
    shown = [word for word in words if not word.startswith("--")][2:]
    assert len(shown) == len(options), shown
    given = dict(zip(shown, options, strict=True))
    command = [sys.executable, "-m", "extauthz.cli", *(given.get(word, word) for word in words), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return list(yaml.safe_load_all(done.stdout))


class WebhookWorld(World):
    """The gate with its webhook in force, as docs/webhook.md installs it.

    Args:
        more: flags of ``render webhook``.
        settings: flags of the gate.
    """

    def __init__(self, plane: Plane, folder: Path, more: tuple[str, ...] = (), settings: tuple[str, ...] = ()) -> None:
        self._more = more
        (self._port,) = free_ports(1)
        server = {name: plane.folder / f"server.{name}" for name in ("crt", "key")}
        address = f"--webhook=127.0.0.1:{self._port}"
        tls = [f"--webhook-cert={server['crt']}"]
        super().__init__(plane, folder, [address, *tls, *settings])

    def __enter__(self) -> Self:
        entered = super().__enter__()
        for tree in rendered(str(self.plane.ca), self.webhook_url, more=self._more):
            self.api.create(tree)
        self._await_in_force()
        return entered

    @property
    def webhook_url(self) -> str:
        """Where the API server asks."""
        return f"https://127.0.0.1:{self._port}"

    def configured(self, tree: dict[str, Any], port: int) -> dict[str, Any]:
        """With where the webhook is, and who vouches for it."""
        for one in tree["webhooks"]:
            authority = base64.b64encode(self.plane.ca.read_bytes()).decode()
            one["clientConfig"] = {"url": f"https://127.0.0.1:{port}/validate", "caBundle": authority}
        return tree

    def _await_in_force(self) -> None:
        """An API server takes a new configuration in about a second. Before, it asks nobody."""
        tree = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "probe"}},
                "template": {"metadata": {"labels": {"app": "probe"}}, "spec": {"containers": [_CONTAINER]}},
            },
        }

        def asked() -> bool:
            self.api.call("POST", "/apis/apps/v1/namespaces/default/replicasets?dryRun=All", tree)
            return any(line.get("workload", "").endswith("default/probe") for line in self.gate.events("decision"))

        eventually(asked)

    @functools.cached_property
    def manager(self) -> ControllerManager:
        """kube-controller-manager, which no gate's Envoy stands before."""
        bare = self._stack.enter_context(Envoy(self._options(Profile.SCALE), self.folder / "bare", self._without_gate))
        return self._stack.enter_context(ControllerManager(self.plane, f"https://127.0.0.1:{bare.port}", self.folder))

    def _without_gate(self, tree: dict[str, Any]) -> None:
        self._add_metrics(tree)
        assert only_route(tree), "there were filters"


_CONTAINER = {"name": "main", "image": "registry.test/app:1"}

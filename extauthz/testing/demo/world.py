"""What the demo runs on: a cluster in a stand-in API server, the gate and Envoy, all real but the cluster."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from extauthz.render.options import Endpoint, SidecarOptions

from ..apiserver import ApiServer
from ..certs import Authority
from ..envoy import Envoy
from ..gate import Gate
from ..objects import Key
from .recordings import Recording

QUOTAS = """\
# Who may use how much. What an administrator writes; the gate watches this file.
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: big-corp}
spec:
  hard: {requests.cpu: "16"}
---
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec:
  parent: big-corp
  namespaceSelector: {matchLabels: {workspace: acme}}
  hard: {requests.cpu: "12", requests.nvidia.com/gpu: "%(gpus)d"}
---
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme-lab}
spec:
  parent: acme
  namespaceSelector: {matchLabels: {workspace: acme}}
  workloadSelector: {matchLabels: {app: kc}}
  hard: {pods: "3"}
"""

NAMESPACE = "team-a"
TOKEN = "demo-token"
"""Every request carries it, as in a cluster."""
PATIENCE_S = 15.0
"""For what takes effect within a second on an idle machine."""


def deployment(name: str, replicas: int, requests: dict[str, str], **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    """A Deployment as kubectl prints one, without what costs nothing."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]},
            },
        },
    }


CLUSTER = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"workspace": "acme"}}},
    deployment("hello-00001-deployment", 1, {"cpu": "500m", "nvidia.com/gpu": "1"}),
    deployment("web", 2, {"cpu": "1"}, uid="736b861c-5232-412a-aff0-c8fa32a6db9d"),
    deployment("kc", 8, {"cpu": "100m"}),
)


class Answer(NamedTuple):
    """What came back, and what the gate logged about it (empty if it was not asked)."""

    code: int
    protocol: str
    body: dict[str, Any]
    """Empty if it is not JSON with the content-type that client-go needs to read it."""
    decision: dict[str, Any]


class World:
    """Starts everything, in the order that it depends on each other, and ends it again. A context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._quotas, self._state = directory / "quotas.yaml", directory / "state.json"
        self._running = ExitStack()
        authority = Authority(directory, "demo CA")
        certificate = authority.issue("localhost")
        self.api = ApiServer(certificate, CLUSTER)
        self._write_quotas(gpus=4)
        self._write_state()
        self._gate_log = directory / "gate.log"
        self.gate = Gate(self._quotas, self._state, self._gate_log)
        self._certificate, self._ca = certificate, authority.ca
        self._trust = ssl.create_default_context(cafile=str(authority.ca))
        self.envoy: Envoy | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def start_api(self) -> str:
        """Where it listens; so do the next two."""
        self._running.enter_context(self.api)
        return f"https://127.0.0.1:{self.api.port}"

    def start_gate(self) -> str:
        self._running.enter_context(self.gate)
        return f"grpc://127.0.0.1:{self.gate.port}"

    def start_envoy(self) -> str:
        options = SidecarOptions(
            apiserver=Endpoint("127.0.0.1", self.api.port),
            apiserver_name="127.0.0.1",
            apiserver_ca_file=str(self._ca),
            cert_file=str(self._certificate.cert),
            key_file=str(self._certificate.key),
            gate=Endpoint("127.0.0.1", self.gate.port),
        )
        self.envoy = self._running.enter_context(Envoy(options, self._directory / "envoy"))
        return f"https://127.0.0.1:{self.envoy.port}"

    def send(self, recording: Recording) -> Answer:
        """Sends it as recorded, by https through Envoy; HTTP/2 as Go clients do, HTTP/1.1 for kubectl."""
        assert self.envoy is not None
        h2 = not recording.client.startswith("kubectl")
        decided = self._decided()
        with httpx.Client(verify=self._trust, http1=not h2, http2=h2, timeout=PATIENCE_S) as client:
            base = f"https://127.0.0.1:{self.envoy.port}"
            headers = {"authorization": f"Bearer {TOKEN}", **recording.headers}
            request = client.build_request(
                recording.method, base + recording.path, headers=headers, content=recording.body
            )
            answer = client.send(request)
        decision: dict[str, Any] = {}
        if self._decided() > decided:  # then the gate's log has a line of it, if a little late
            _until(lambda: len(self._logged()) > decided, "the gate logs its decision")
            decision = self._logged()[-1]
        return Answer(answer.status_code, answer.http_version, _json(answer), decision)

    def replicas(self, name: str) -> int:
        """What the API server holds."""
        count: int = self.api.objects.get(Key("apps", "deployments", NAMESPACE, name))["spec"]["replicas"]
        return count

    def rewind(self, name: str, resource_version: str) -> None:
        """Gives an object the version that a recorded request expects: status writes came between in the recording."""
        self.api.objects.get(Key("apps", "deployments", NAMESPACE, name))["metadata"]["resourceVersion"] = (
            resource_version
        )

    def show_state(self) -> None:
        """``kubectl get ns,deploy -A -o json`` for the gate, as a cron job would; done when the gate has read it."""
        self._reloaded("state", self._write_state)

    def raise_gpus(self, gpus: int) -> None:
        """The administrator edits the quota; done when it is in force."""
        self._reloaded("quotas", lambda: self._write_quotas(gpus))

    def _write_quotas(self, gpus: int) -> bool:
        self._quotas.write_text(QUOTAS % {"gpus": gpus})
        return True

    def _write_state(self) -> bool:
        """Whether there was anything new to write."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(self.api.objects.items.values())})
        if self._state.exists() and self._state.read_text() == text:
            return False
        new = self._state.with_suffix(".new")
        new.write_text(text)
        new.replace(self._state)
        return True

    def _reloaded(self, source: str, change: Callable[[], bool]) -> None:
        before = self._loads(source)
        if change():
            _until(lambda: self._loads(source) > before, f"the gate reads its {source}")

    def _loads(self, source: str) -> int:
        return sum(line["source"] == source for line in self.gate.events("loaded"))

    def token_reached(self) -> tuple[bool, bool]:
        """Whether the bearer token came with every write to the API server, and whether the gate logged it anywhere."""
        arrived = all(seen.headers.get("authorization") == f"Bearer {TOKEN}" for seen in self.api.seen)
        return arrived, TOKEN in self.gate_log()

    def gate_log(self) -> str:
        """All that the gate has written so far."""
        return self._gate_log.read_text() if self._gate_log.exists() else ""

    def intents(self) -> float:
        """How many allowed writes the gate thinks may still land."""
        return self.gate.metric("extauthz_intents") if self.gate.running else 0.0

    def _decided(self) -> int:
        """How often Envoy got a decision so far."""
        assert self.envoy is not None
        return sum(self.envoy.stat(f"http.apiserver.ext_authz.{name}") for name in ("ok", "denied"))

    def _logged(self) -> list[dict[str, Any]]:
        return list(self.gate.events("decision"))


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain until {what}")
        time.sleep(0.02)


def _json(answer: httpx.Response) -> dict[str, Any]:
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return {}
    body: dict[str, Any] = answer.json()
    return body

"""What the demo runs: a cluster, the gate and Envoy between those who write and the API server."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from extauthz.render.options import Endpoint, SidecarOptions

from ..envoy import Envoy
from ..gate import Gate
from .cluster import PATIENCE_S, TOKEN, Cluster, reloaded, until
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


class Answer(NamedTuple):
    """What came back, and what the gate logged about it (empty if it was not asked)."""

    code: int
    protocol: str
    body: dict[str, Any]
    """Empty if it is not JSON with the content-type that client-go needs to read it."""
    decision: dict[str, Any]


class World:
    """Starts everything, in the order that it depends on each other, and ends it again. A context manager."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        self._directory, self.cluster = directory, cluster
        self._quotas, self._gate_log = directory / "quotas.yaml", directory / "gate.log"
        self._write_quotas(gpus=4)
        self._running = ExitStack()
        self.gate = Gate(self._quotas, cluster.state, self._gate_log, cluster.gate_flags)
        self.envoy: Envoy | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def start_api(self) -> str:
        """Where it listens; so do the next two."""
        self._running.enter_context(self.cluster)
        return f"https://127.0.0.1:{self.cluster.port}"

    def start_gate(self) -> str:
        self._running.enter_context(self.gate)
        return f"grpc://127.0.0.1:{self.gate.port}"

    def restart_gate(self) -> str:
        """A gate where Envoy looks for it, after it was killed; the address of its page."""
        options = dict.fromkeys((*self.cluster.gate_flags, "--on-unclean-start=allow"))
        grpc = f"127.0.0.1:{self.gate.port}"
        again = Gate(self._quotas, self.cluster.state, self._gate_log, tuple(options), grpc=grpc)
        self.gate = self._running.enter_context(again)
        return self.gate.address

    def start_envoy(self) -> str:
        options = SidecarOptions(
            apiserver=Endpoint("127.0.0.1", self.cluster.port),
            apiserver_name="127.0.0.1",
            apiserver_ca_file=str(self.cluster.ca),
            cert_file=str(self.cluster.certificate.cert),
            key_file=str(self.cluster.certificate.key),
            gate=Endpoint("127.0.0.1", self.gate.port),
        )
        self.envoy = self._running.enter_context(Envoy(options, self._directory / "envoy"))
        return f"https://127.0.0.1:{self.envoy.port}"

    def send(self, recording: Recording) -> Answer:
        """Sends it as recorded, by https through Envoy; HTTP/2 as Go clients do, HTTP/1.1 for kubectl."""
        assert self.envoy is not None
        h2 = not recording.client.startswith("kubectl")
        decided = self._decided()
        trust = ssl.create_default_context(cafile=str(self.cluster.ca))
        with httpx.Client(verify=trust, http1=not h2, http2=h2, timeout=PATIENCE_S) as client:
            base = f"https://127.0.0.1:{self.envoy.port}"
            headers = {"authorization": f"Bearer {TOKEN}", **recording.headers}
            request = client.build_request(
                recording.method, base + recording.path, headers=headers, content=recording.body
            )
            answer = client.send(request)
        decision: dict[str, Any] = {}
        if self._decided() > decided:  # then the gate's log has a line of it, if a little late
            until(lambda: len(self._logged()) > decided, "the gate logs its decision")
            decision = self._logged()[-1]
        return Answer(answer.status_code, answer.http_version, _json(answer), decision)

    def raise_gpus(self, gpus: int) -> None:
        """The administrator edits the quota; done when it is in force."""
        reloaded(self.gate, "quotas", lambda: self._write_quotas(gpus))

    def _write_quotas(self, gpus: int) -> bool:
        self._quotas.write_text(QUOTAS % {"gpus": gpus})
        return True

    def token_reached(self) -> tuple[bool, bool]:
        """Whether the bearer token came with every write to the API server, and whether the gate logged it anywhere."""
        return self.cluster.arrived(), TOKEN in self.gate_log()

    def gate_log(self) -> str:
        """All that the gate has written so far."""
        return self._gate_log.read_text() if self._gate_log.exists() else ""

    def pending_writes(self) -> float:
        """How many allowed writes the gate thinks may still land."""
        return self.gate.metric("extauthz_intents") if self.gate.running else 0.0

    def _decided(self) -> int:
        """How often Envoy got a decision so far."""
        assert self.envoy is not None
        return sum(self.envoy.stat(f"http.apiserver.ext_authz.{name}") for name in ("ok", "denied"))

    def _logged(self) -> list[dict[str, Any]]:
        return list(self.gate.events("decision"))


def _json(answer: httpx.Response) -> dict[str, Any]:
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return {}
    body: dict[str, Any] = answer.json()
    return body

"""Several real gates that share a ledger, each with an Envoy of its own and a way to the API server that can be cut."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import grpc
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.demo.envoy import Alter, Envoy
from extauthz.demo.gate import SERVE, Gate
from extauthz.serve.ledger_store.kubernetes import NAME
from extauthz.serve.ledger_store.payload import Payload, decode
from extauthz.tools.render.options import Endpoint, Profile, SidecarOptions
from tests.contract.worlds import Relay, relaying
from tests.controlplane.access import service_account
from tests.controlplane.api import Api
from tests.controlplane.plane import Plane, free_ports, write_kubeconfig
from tests.controlplane.world import DEPLOY, GATES_OWN
from tests.support.background import Background
from tests.waiting import eventually

Tree = Any
LEDGER = "WorkspaceLedger.extauthz.dev/v1alpha1"
EXT_AUTHZ = "envoy.filters.http.ext_authz"
ASK_WITHIN_S = 30.0
LOCAL_POOL = (("grpc.use_local_subchannel_pool", 1),)
"""gRPC would hand out the old connection to a gate that was started anew on the same socket."""


class Answer(NamedTuple):
    """What a gate says to a check."""

    allowed: bool
    id: str
    reason: str
    message: str


class Wire(Background):
    """A relay to the API server, in a thread of its own."""

    def __init__(self, target_port: int) -> None:
        super().__init__("wire")
        self._target_port = target_port
        self._relay: Relay | None = None

    async def main(self) -> None:
        async with relaying(self._target_port) as self._relay:
            self.started()
            await asyncio.Event().wait()

    @property
    def port(self) -> int:
        assert self._relay is not None, "it was not started"
        return self._relay.port

    def cut(self) -> None:
        """End all connections without a goodbye."""
        assert self._relay is not None, "it was not started"
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._relay.cut)


class Site:
    """One gate, and what is its own. A context manager."""

    def __init__(
        self,
        plane: Plane,
        folder: Path,
        token: str,
        options: Sequence[str],
        serve: Sequence[str],
        write_s: float,
        alter: Alter,
    ) -> None:
        folder.mkdir()
        self.wire = Wire(plane.port)
        self._plane, self._token, self._folder = plane, token, folder
        self._socket = folder / "gate.sock"
        kubeconfig = folder / "gate.kubeconfig"
        (self.webhook_port,) = free_ports(1)
        webhook = [f"--webhook=127.0.0.1:{self.webhook_port}", f"--webhook-cert={plane.folder / 'server.crt'}"]
        shared = ["--ledger=kubernetes", f"--kubeconfig={kubeconfig}", *webhook, *options]
        self.gate = Gate(
            "kubernetes", "kubernetes", folder / "gate.log", shared, grpc=f"unix:{self._socket}", serve=serve
        )
        self._kubeconfig = kubeconfig
        self.envoy = Envoy(self._options(write_s), folder / "envoy", alter)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.wire)
            url = f"https://127.0.0.1:{self.wire.port}"
            write_kubeconfig(self._kubeconfig, url, self._plane.ca, {"token": self._token})
            stack.enter_context(self.gate)
            stack.enter_context(self.envoy)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _options(self, write_s: float) -> SidecarOptions:
        return self._plane.sidecar(Endpoint("", 0, str(self._socket)), profile=Profile.SCALE, write_timeout_s=write_s)

    @property
    def url(self) -> str:
        """Of its Envoy."""
        return f"https://127.0.0.1:{self.envoy.port}"

    def client(self, token: str) -> Api:
        """Through its Envoy."""
        return Api(self.url, self._plane.tls, token)

    def signal(self, number: signal.Signals) -> None:
        """To the gate: SIGSTOP and SIGCONT."""
        os.kill(self.gate.pid, number)

    # Straight at the gate, so that no write follows what it allows.

    def ask(self, namespace: str, name: str, replicas: int) -> Answer:
        """Check a scale write of a Deployment."""
        request = CheckRequest()
        http = request.attributes.request.http
        http.method, http.path = "PATCH", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
        http.headers["content-type"] = "application/merge-patch+json"
        http.raw_body = json.dumps({"spec": {"replicas": replicas}}).encode()
        with self._channel() as channel:
            check = channel.unary_unary(
                "/envoy.service.auth.v3.Authorization/Check",
                request_serializer=CheckRequest.SerializeToString,
                response_deserializer=CheckResponse.FromString,
            )
            said = check(request, timeout=ASK_WITHIN_S)
        metadata = said.dynamic_metadata
        message = json.loads(said.denied_response.body)["message"] if said.denied_response.body else ""
        return Answer(said.HasField("ok_response"), metadata["decision_id"], metadata["reason"], message)

    def settle(self, ask: Answer, code: int) -> None:
        """Tell it, as an Envoy's access log does, what the API server answered to a write; whoever allowed it."""
        message = StreamAccessLogsMessage()
        entry = message.http_logs.log_entry.add()
        entry.common_properties.upstream_request_attempt_count = 1
        entry.common_properties.metadata.filter_metadata[EXT_AUTHZ]["decision_id"] = ask.id
        entry.response.response_code.value = code
        entry.response.response_code_details = "via_upstream"
        with self._channel() as channel:
            log = channel.stream_unary(
                "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
                request_serializer=StreamAccessLogsMessage.SerializeToString,
            )
            log(iter([message]), timeout=ASK_WITHIN_S)

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{self._socket}", LOCAL_POOL)


class Sites:
    """So many of them on one plane, from ``deploy/``'s own rights. A context manager; logs stay in *folder*.

    Args:
        alter: may change the configuration of their Envoys.
    """

    def __init__(
        self,
        plane: Plane,
        folder: Path,
        number: int,
        window_s: float,
        *,
        options: Sequence[str] = (),
        serve: Sequence[str] = SERVE,
        write_s: float = 65.0,
        alter: Alter = lambda tree: None,
    ) -> None:
        self.plane, self.folder, self.window_s = plane, folder, window_s
        self._number, self._write_s, self._serve, self._alter = number, write_s, serve, alter
        self._flags = [f"--window-s={window_s}", *options]
        self._sites: list[Site] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.plane.kubectl("apply", f"--kustomize={DEPLOY}")
        eventually(lambda: self.plane.api.serves("WorkspaceQuota") and self.plane.api.serves(LEDGER))
        token = service_account(self.plane, GATES_OWN, "extauthz")
        self.token = service_account(self.plane, "kube-system", "scaler", "cluster-admin")
        with ExitStack() as stack:
            for number in range(self._number):
                folder = self.folder / f"site-{number}"
                site = Site(self.plane, folder, token, self._flags, self._serve, self._write_s, self._alter)
                self._sites.append(stack.enter_context(site))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites)

    def __getitem__(self, number: int) -> Site:
        return self._sites[number]

    # What is told of ledgers.

    def payload(self) -> Payload:
        """What the ledger object holds."""
        return decode(self.plane.api.get(LEDGER, NAME)["spec"]["payload"])

    def await_no_hold(self) -> None:
        """Until growth is held back nowhere, as every gate sees it."""

        def pages() -> list[str]:
            return [site.gate.page("/readyz") for site in self]

        eventually(lambda: all("grants no growth" not in page for page in pages()), pages)

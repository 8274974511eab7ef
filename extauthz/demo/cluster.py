"""What the demo starts, in order: a stand-in for an API server, the gate, Envoy; and the recorded requests."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import yaml

from extauthz.demo.apiserver import ApiServer, Key, Pair
from extauthz.demo.envoy import Envoy
from extauthz.demo.gate import Gate
from extauthz.tools.render import certificate
from extauthz.tools.render.options import Endpoint, SidecarOptions

NOT_SENT = ("content-length", "x-request-id", "x-forwarded-proto")
"""Belong to the way that a request came by when it was recorded."""


@dataclass(frozen=True)
class Recording:
    """One request as a real client sent it."""

    client: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def precondition(self) -> dict[str, str]:
        """``resourceVersion`` and ``uid`` that the client asks the API server to verify, if it does."""
        if not self.body.startswith(b"{"):
            return {}
        metadata = json.loads(self.body).get("metadata", {})
        return {key: metadata[key] for key in ("resourceVersion", "uid") if key in metadata}

    def changed(self, *, path: str | None = None, body: bytes | None = None) -> Recording:
        """The same client asking for something else."""
        return replace(self, path=path or self.path, body=self.body if body is None else body)


@cache
def _all() -> tuple[Recording, ...]:
    text = (files(__package__) / "recorded.jsonl").read_text()
    return tuple(_recording(json.loads(line)) for line in text.splitlines())


def _recording(line: dict[str, Any]) -> Recording:
    headers = {k: v for k, v in line["headers"].items() if not k.startswith(":") and k not in NOT_SENT}
    body = line["body"].encode() if "body" in line else base64.b64decode(line["body_base64"])
    return Recording(line["client"], line["method"], line["path"], headers, body)


def find(client: str, wanted: str) -> Recording:
    """The one recording of a client (the beginning of its name) whose path or body holds a text."""
    [found] = (
        one for one in _all() if one.client.startswith(client) and (wanted in one.path or wanted.encode() in one.body)
    )
    return found


NAMESPACE = "team-a"
TOKEN = "demo-token"
"""Every request carries it, as in a cluster."""
PATIENCE_S = 15.0
"""For what takes effect within a second on an idle machine."""


_HERE = files(__package__)
OBJECTS: tuple[dict[str, Any], ...] = tuple(yaml.safe_load_all((_HERE / "objects.yaml").read_text()))


class StandIn:
    """Objects in memory, and the state in a file, as a cron job with ``kubectl get ns,deploy -A -o json`` has it."""

    def __init__(self, directory: Path) -> None:
        certificate.made(directory / "envoy", ("127.0.0.1",), 1)
        self.ca, self.certificate = directory / "ca.crt", Pair(directory / "envoy.crt", directory / "envoy.key")
        self.state = directory / "state.json"
        self._api = ApiServer(self.certificate, OBJECTS)
        self._write()

    def __enter__(self) -> Self:
        self._api.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._api.__exit__()

    @property
    def port(self) -> int:
        return self._api.port

    def replicas(self, name: str) -> int:
        count: int = self._deployment(name)["spec"]["replicas"]
        return count

    def meet(self, recording: Recording, workload: str | None) -> None:
        """Status writes came between in the recording: gives the object the version and UID that it had then."""
        if workload:
            self._deployment(workload)["metadata"] |= recording.precondition

    def show(self, gate: Gate) -> None:
        reloaded(gate, "state", self._write)

    def arrived(self) -> bool:
        return all(seen.headers.get("authorization") == f"Bearer {TOKEN}" for seen in self._api.seen)

    def _deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api.objects.get(Key("apps", "deployments", NAMESPACE, name))
        return found

    def _write(self) -> bool:
        """Whether there was anything new to write."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(self._api.objects.items.values())})
        if self.state.exists() and self.state.read_text() == text:
            return False
        new = self.state.with_suffix(".new")
        new.write_text(text)
        new.replace(self.state)
        return True


def reloaded(gate: Gate, source: str, change: Callable[[], bool]) -> None:
    """Changes a file, and returns when the gate has read it again."""

    def loads() -> int:
        return sum(line["source"] == source for line in gate.events("loaded"))

    before = loads()
    if change():
        until(lambda: loads() > before, f"the gate reads its {source}")


def until(done: Callable[[], bool], what: str) -> None:
    """Polls.

    Raises:
        TimeoutError: it was in vain.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain until {what}")
        time.sleep(0.02)


class Response(NamedTuple):
    """What came back, and what the gate logged about it (empty if it was not asked)."""

    code: int
    protocol: str
    body: dict[str, Any]
    """Empty if it is not JSON with the content-type that client-go needs to read it."""
    decision: dict[str, Any]


class World:
    """Starts everything, in the order that it depends on each other, and ends it again. A context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.cluster = directory, StandIn(directory)
        self._quotas, self._gate_log = directory / "quotas.yaml", directory / "gate.log"
        self._write_quotas(gpus=4)
        self._running = ExitStack()
        self.gate = Gate(self._quotas, self.cluster.state, self._gate_log)
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
        options, grpc = ["--allow-unknown=unclean-start"], f"127.0.0.1:{self.gate.port}"
        again = Gate(self._quotas, self.cluster.state, self._gate_log, options, grpc=grpc)
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

    def send(self, recording: Recording) -> Response:
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
        return Response(answer.status_code, answer.http_version, _json(answer), decision)

    def raise_gpus(self, gpus: int) -> None:
        """The administrator edits the quota; done when it is in force."""
        reloaded(self.gate, "quotas", lambda: self._write_quotas(gpus))

    def _write_quotas(self, gpus: int) -> bool:
        text = (_HERE / "quotas.yaml").read_text()
        self._quotas.write_text(text.replace('gpu: "4"', f'gpu: "{gpus}"'))
        return True

    def token_reached(self) -> tuple[bool, bool]:
        """Whether the bearer token came with every write to the API server, and whether the gate logged it anywhere."""
        return self.cluster.arrived(), TOKEN in self.gate_log()

    def gate_log(self) -> str:
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

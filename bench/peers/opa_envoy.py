"""OPA-Envoy itself, where ``OPA_ENVOY`` names its binary. Its module is not in the module proxy, but its repository
builds: ``go build ./cmd/opa-envoy-plugin`` (https://github.com/open-policy-agent/opa-envoy-plugin).
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from extauthz.demo.processes import Child
from tests.support.stack import unused_port

from .building import SOURCE

SETTING = "OPA_ENVOY"
HTTP = "input.attributes.request.http"
ANSWER = """
answer := {"allowed": count(denials) == 0, "body": concat(", ", denials), "dynamic_metadata": {"decision_id": "1"}}
"""


def binary() -> str | None:
    """Where it is; ``None``: it is not at hand."""
    return os.environ.get(SETTING)


def started(program: str, data: Path, folder: Path, stack: ExitStack) -> tuple[int, int]:
    """Its process and its port. It has the policy of ``bench/peers/go/opa``, and one processor as the others have."""
    policy = (SOURCE / "opa" / "policy.rego").read_text()
    policy = policy.replace("input.path", f"{HTTP}.path").replace("input.body", f"base64.decode({HTTP}.raw_body)")
    rego = folder / "policy.rego"
    rego.write_text(policy + ANSWER)
    port, log = unused_port(), folder / "opa-envoy.log"
    settings = (f"plugins.envoy_ext_authz_grpc.addr=127.0.0.1:{port}", "plugins.envoy_ext_authz_grpc.path=quota/answer")
    command = [
        "env",
        "GOMAXPROCS=1",
        program,
        "run",
        "--server",
        f"--addr=127.0.0.1:{unused_port()}",
        "--skip-version-check",
    ]
    command += ["--optimize-store-for-read-speed", *(f"--set={one}" for one in settings), str(rego), str(data)]
    child = Child(command, log)
    stack.callback(child.terminate)
    child.until(lambda: "Starting gRPC server" in log.read_text() or None)
    return child.pid, port

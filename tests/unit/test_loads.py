"""What each command loads: a page of help, or an answer, waits for no package that it does not need.

``tests/servers/test_race.py`` has what a gate loads.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from extauthz.cli import COMMANDS

LOADED = """
import sys
before = set(sys.modules)
from extauthz.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
tops = {name.partition(".")[0] for name in sys.modules.keys() - before}
ours = {"extauthz", "cython_runtime"} | {name for name in tops if name.startswith("_")}
print("\\nloaded", *sorted(tops - sys.stdlib_module_names - ours | tops & {"asyncio", "ssl"}))
"""

QUOTA = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec: {namespaceSelector: {matchLabels: {workspace: acme}}, hard: {requests.cpu: "2"}}
"""

STATE = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {workspace: acme}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: u1, resourceVersion: "5", generation: 1}
  spec:
    replicas: 1
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  status: {replicas: 1, observedGeneration: 1}
"""

CLIENT = {"ssl"}
"""Of a server: Python's own, which can do https."""
HELP = {name: set[str]() for name in COMMANDS} | {"render": {"yaml"}}
FILES = {"yaml", "cachetools", "orjson"}
"""What the gate reads files by, and remembers in."""


def loaded(*words: str) -> set[str]:
    """Packages that are not Python's own, and those of its own that take long."""
    command = [sys.executable, "-c", LOADED, *words]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert said.returncode == 0, said.stderr
    return set(said.stdout.splitlines()[-1].split()[1:])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The flags that name them."""
    (tmp_path / "q.yaml").write_text(QUOTA)
    (tmp_path / "s.yaml").write_text(STATE)
    return ["--quotas", str(tmp_path / "q.yaml"), "--state", str(tmp_path / "s.yaml")]


class NoQuotas(BaseHTTPRequestHandler):
    """A gate without any."""

    def do_GET(self) -> None:
        body = b'{"items": [], "continue": null}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[str]:
    """Its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), NoQuotas) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_no_package_that_only_the_command_needs(command: str):
    assert loaded(command, "--help") == HELP[command]


def test_the_list_of_commands_and_the_version_load_none():
    assert loaded("--help") == loaded("--version") == set()


def test_a_check_on_files_loads_no_client(files: list[str]):
    assert loaded("check", "deploy/web", "-n", "shop", "--replicas", "2", *files) == FILES
    assert loaded("check", "deploy/web", "-n", "shop", *files) == FILES


def test_who_asks_a_server_loads_no_gate_and_no_client_of_kubernetes(server: str):
    assert loaded("top", "--server", server) == CLIENT

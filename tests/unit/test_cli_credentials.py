"""What ``top`` and ``check`` show to ``--server``: what is refused before anything is sent.

``tests/controlplane/test_api.py`` asks a real gate.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from extauthz.cli import main
from tests.support.certs import Authority


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    authority = Authority(tmp_path)
    pair, other = authority.issue("me"), authority.issue("other")
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "two").write_text("secret\r\nx-user: admin")
    (tmp_path / "nobody").write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "u", "user": {}}],'
        '"contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],'
        '"clusters": [{"name": "c", "cluster": {"server": "https://localhost:1"}}]}'
    )
    named = {name: str(tmp_path / name) for name in ("token", "empty", "two", "nobody", "missing")}
    return named | {"ca": str(authority.ca), "cert": str(pair.cert), "key": str(pair.key), "other": str(other.key)}


AT = "--server https://localhost:1"


@pytest.mark.parametrize(
    ("words", "code", "cure"),
    [
        ("--token-file {token}", 64, "--token-file is for --server https://"),
        ("--server http://localhost:1 --token-file {token}", 64, "credentials go over https only"),
        (f"{AT} --client-cert {{cert}}", 64, "--client-cert and --client-key go together"),
        (f"{AT} --client-key {{key}}", 64, "--client-cert and --client-key go together"),
        (f"{AT} --kubeconfig {{nobody}} --token-file {{token}}", 64, "in place of --token-file"),
        (f"{AT} --token-file {{missing}}", 65, "No such file"),
        (f"{AT} --token-file {{empty}}", 65, "it holds no token"),
        (f"{AT} --token-file {{two}}", 65, "it holds no token"),
        (f"{AT} --ca {{token}}", 65, "write them in PEM"),
        (f"{AT} --client-cert {{cert}} --client-key {{other}}", 65, "write both in PEM"),
        (f"{AT} --kubeconfig {{missing}}", 65, "no such file"),
        (f"{AT} --kubeconfig {{nobody}}", 65, "neither a token nor a client certificate"),
    ],
)
def test_what_cannot_be_shown_is_told_with_the_cure(
    files: dict[str, str], words: str, code: int, cure: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["top", *words.format(**files).split()]) == code
    error = capsys.readouterr().err
    assert cure in error
    assert "secret" not in error


class Seen(BaseHTTPRequestHandler):
    """Leads every question to another path, and notes what it was shown."""

    shown: list[str | None]

    def do_GET(self) -> None:
        self.shown.append(self.headers["authorization"])
        self.send_response(302)
        self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def redirecting(files: dict[str, str]) -> Iterator[str]:
    Seen.shown = []
    server = HTTPServer(("localhost", 0), Seen)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["cert"], files["key"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_token_follows_no_redirect(files: dict[str, str], redirecting: str, capsys: pytest.CaptureFixture[str]):
    assert main(["top", "--server", redirecting, "--ca", files["ca"], "--token-file", files["token"]]) == 69
    assert Seen.shown == ["Bearer secret"]
    assert "302" in capsys.readouterr().err


def test_explain_shows_a_token_too(files: dict[str, str], redirecting: str, tmp_path: Path):
    template = {"spec": {"containers": [{"name": "main", "image": "a"}]}}
    web = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 1, "template": template}}
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", **web}))
    asked = ["explain", "deploy/web", "-n", "shop", "--state", str(state), "--server", redirecting]
    assert main([*asked, "--ca", files["ca"], "--token-file", files["token"]]) == 2
    assert Seen.shown == ["Bearer secret"]
    assert main([*asked[:-2], "--token-file", files["token"]]) == 64, "there is nobody to show it to"

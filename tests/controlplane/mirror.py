"""The cluster and its quotas as files, written anew every half second, for a gate that reads files."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from extauthz.testing.background import Background
from tests.controlplane.api import Api, path_of

KINDS = ("Namespace", "Deployment", "StatefulSet", "ReplicaSet", "ControllerRevision")
EVERY_S = 0.5


class Mirror(Background):
    """Writes ``quotas.json`` and ``state.json``. A context manager."""

    def __init__(self, api: Api, folder: Path) -> None:
        super().__init__("mirror")
        self.quotas, self.state = folder / "quotas.json", folder / "state.json"
        self._api = api

    async def main(self) -> None:
        while True:
            state = [item for kind in KINDS for item in self._listed(kind)]
            quotas = self._listed("WorkspaceQuota")
            for path, items in ((self.state, state), (self.quotas, quotas)):
                text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
                if not path.exists() or path.read_text() != text:
                    fresh = path.with_suffix(".new")
                    fresh.write_text(text)
                    os.replace(fresh, path)
            self.started()
            await asyncio.sleep(EVERY_S)

    def _listed(self, kind: str) -> list[Any]:
        answer = self._api.call("GET", path_of(kind))
        return [{"kind": kind, "apiVersion": answer["apiVersion"], **item} for item in answer["items"]]

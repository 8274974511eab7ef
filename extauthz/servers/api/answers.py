"""Answers of the API as JSON. ``routes`` gives them over HTTP; the command line asks them of files too."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from extauthz.core.intake.read import read
from extauthz.core.kinds import BY_NAME, BY_PATH, GATED
from extauthz.core.model import Decision, Reading, Request, Verdict, WorkloadRef
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.core.queries import Headroom, Queries, WorkloadUse
from extauthz.servers.api import shown
from extauthz.servers.api.problems import Problem
from extauthz.servers.api.shown import Json

MOST = 1_000
"""Items of one page."""

MOST_IN_BATCH = 100
"""Workloads of one question about headroom."""

STEP = 200
"""Workloads that are looked at before other work comes in between."""

_MERGE_PATCH: Final = {"content-type": "application/merge-patch+json"}

Decide = Callable[[Reading], Decision]
"""Decides and charges nothing."""


class Answers:
    """What is known of quotas and workloads.

    Args:
        queries: of the gate's ledger.
        decide: decides a write and charges nothing.
        clock: seconds, on the gate's clock.
    """

    def __init__(self, queries: Queries, decide: Decide, clock: Callable[[], float]) -> None:
        self._queries = queries
        self._decide = decide
        self._clock = clock

    # Quotas.

    def quotas(self, below: str | None = None, after: str | None = None, limit: int = MOST) -> Json:
        """Quotas, each after its parent."""
        if below is not None:
            self.quota(below)
        if after is not None and self._queries.quota(after) is None:
            raise Problem(410, f'the list cannot go on after quota "{after}": it is gone; begin anew')
        items = [shown.quota(use) for use in islice(self._queries.quotas(below, after), limit + 1)]
        return shown.page("QuotaList", items[:limit], items[limit - 1]["name"] if len(items) > limit else None)

    def quota(self, name: str) -> Json:
        """One quota."""
        use = self._queries.quota(name)
        if use is None:
            raise Problem(404, f'there is no quota "{name}"')
        return shown.quota(use)

    # Workloads.

    async def workloads(self, quota: str, sort: str | None = None, limit: int = MOST) -> Json:
        """Workloads that count in one quota: those that use most of ``sort`` first, or by name."""
        self.quota(quota)
        found: list[WorkloadUse] = []
        total = 0
        for number, use in enumerate(self._queries.looking(quota), 1):
            if use is not None:
                found.append(use)
                total += 1
            if number % STEP == 0:
                found = _first(found, sort, limit)
                await asyncio.sleep(0)
        first = _first(found, sort, limit)
        return shown.page("WorkloadList", map(shown.workload, first), None) | {"total": total}

    def workload(self, ref: WorkloadRef) -> Json:
        """What one workload uses."""
        use = self._queries.workload(ref)
        if use is None:
            raise _unknown(ref)
        return shown.workload(use)

    # What fits.

    def headroom(self, ref: WorkloadRef) -> Json:
        """How many replicas a workload may have."""
        found = self._queries.headroom(ref)
        if found is None:
            raise _unknown(ref)
        fits_more = found.replicas is None or found.replicas > found.observed
        if fits_more and self._decided(_scaled(ref, found.observed + 1)).verdict is not Verdict.ALLOW:
            found = found._replace(is_certain=False)
        return shown.headroom(ref, found)

    async def headrooms(self, asked: Json) -> Json:
        """The same of several workloads, or of an object that does not exist yet."""
        if "object" in asked:
            return shown.page("HeadroomList", [self._headroom_of_new(_mapping(asked, "object"))], None)
        refs = asked.get("workloads")
        if not isinstance(refs, list) or len(refs) > MOST_IN_BATCH:
            raise Problem(400, f"workloads: must be a list of at most {MOST_IN_BATCH} workloads; or give an object")
        items = []
        for number, one in enumerate(refs):
            try:
                items.append(self.headroom(reference(one if isinstance(one, dict) else {})))
            except Problem as problem:
                items.append({"error": f"workloads[{number}]: {problem.detail}"})
            await asyncio.sleep(0)
        return shown.page("HeadroomList", items, None)

    def _headroom_of_new(self, manifest: Json) -> Json:
        metadata = _mapping(manifest, "metadata")
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        kind = BY_NAME.get((group, str(manifest.get("kind"))))
        if kind is None or not kind.is_gated:
            raise Problem(400, f"object.kind: must be one of {', '.join(kind.name for kind in GATED)}")
        ref = WorkloadRef(kind.key[0], kind.key[1], str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        if not ref.namespace or not ref.name or "/" in ref.namespace + ref.name:
            raise Problem(400, "object.metadata: must have a namespace and a name")
        spec = _mapping(manifest, "spec") | {"replicas": MAX_REPLICAS}
        body = json.dumps(manifest | {"spec": spec}).encode()
        made = Request("POST", _path(ref, version, collection=True), {"content-type": "application/json"}, body)
        decided = self._decided(made)
        if decided.verdict is not Verdict.ALLOW and decided.fits is None:
            raise Problem(409, decided.sentence)
        bound = decided.shortages[0] if decided.shortages else None
        return shown.headroom(ref, Headroom(decided.fits, bound, 0, "", True))

    # Decisions.

    def decision(self, asked: Json) -> Json:
        """What a write would get: of a workload to a count, or of an HTTP request."""
        if "method" in asked:
            return shown.decision(self._decided(_request(asked)))
        ref, replicas = reference(asked), asked.get("replicas")
        if type(replicas) is not int or not 0 <= replicas <= MAX_REPLICAS:
            raise Problem(400, f"replicas: must be a whole number from 0 to {MAX_REPLICAS}")
        return shown.decision(self._decided(_scaled(ref, replicas)))

    def _decided(self, request: Request) -> Decision:
        return self._decide(read(request))

    def pending(self, quota: str | None = None, limit: int = MOST) -> Json:
        """Writes that were allowed and may still land, oldest first."""
        if quota is not None:
            self.quota(quota)
        now_s = self._clock()
        found = self._queries.pending(quota)
        items = [shown.pending(one, now_s) for one in islice(found, limit)]
        total = self._queries.pending_count if quota is None else len(items) + sum(1 for _ in found)
        return shown.page("PendingWriteList", items, None) | {"total": total}


def reference(asked: Mapping[str, Any]) -> WorkloadRef:
    """A workload by ``namespace``, ``resource`` and ``name``.

    Raises:
        Problem: one of them is missing, or the resource is none that has replicas.
    """
    for field in ("namespace", "resource", "name"):
        if not isinstance(asked.get(field), str) or not asked[field] or "/" in asked[field]:
            raise Problem(400, f"{field}: must be a text, such as namespace shop, resource deployments.apps, name web")
    plural, _, group = asked["resource"].partition(".")
    key = BY_PATH.get((group, plural), (group, plural))
    return WorkloadRef(key[0], key[1], asked["namespace"], asked["name"])


def _path(ref: WorkloadRef, version: str = "v1", *, collection: bool = False) -> str:
    group, resource, namespace, name = (quote(part, safe="", errors="replace") for part in ref)
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{resource}" + ("" if collection else f"/{name}")


def _scaled(ref: WorkloadRef, replicas: int) -> Request:
    body = json.dumps({"spec": {"replicas": replicas}}).encode()
    return Request("PATCH", _path(ref) + "/scale", _MERGE_PATCH, body)


def _request(asked: Json) -> Request:
    headers, body = asked.get("headers", {}), asked.get("body", "")
    texts = [asked["method"], asked.get("path"), body, *(headers.values() if isinstance(headers, dict) else [None])]
    if not all(isinstance(text, str) for text in texts):
        raise Problem(400, "method, path, body and each of headers: must be texts; headers: must be an object")
    lower = {name.lower(): value for name, value in headers.items()}
    return Request(asked["method"], asked["path"], lower, body.encode())


def _mapping(asked: Json, field: str) -> Json:
    found = asked.get(field)
    if not isinstance(found, dict):
        raise Problem(400, f"{field}: must be an object")
    return found


def _first(found: list[WorkloadUse], sort: str | None, limit: int) -> list[WorkloadUse]:
    if sort is None:
        return heapq.nsmallest(limit, found, key=lambda use: use.ref)
    return heapq.nlargest(limit, found, key=lambda use: _of(use, sort))


def _of(use: WorkloadUse, resource: str) -> int:
    return use.used.get(resource, 0) + use.reserved.get(resource, 0)


def _unknown(ref: WorkloadRef) -> Problem:
    return Problem(404, f"{ref.group_resource} {ref.namespace}/{ref.name} is not known")

"""Tells owners in Kubernetes events that a workload is held by its quota, and when it may grow again, and of an
autoscaler that it may ask for more than can ever fit; authors of quotas that one is not in force as it is written; and
a namespace that no quota covers it.

On the workload, on what its owner writes (``owners``) and on the autoscaler's object that names it, in
``events.k8s.io/v1`` with the API's own aggregation: one event for an episode (``episodes``), whose ``series`` is
brought up to date rarely; nothing is written per retry.

Wired by ``service``: ``status_written`` is called with each status that was written, ``never_fits`` by ``Ceilings``,
``uncovered`` by ``Strays``, and ``run()`` is one more task. Nothing waits for it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.quota.spec import API_VERSION, KIND, LABEL
from extauthz.core.texts import Tell, stamp
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.tell.observe import owners
from extauthz.tell.observe.autoscalers import Autoscalers, NeverFits, Subject
from extauthz.tell.observe.episodes import Ended, Episode, Episodes, Note
from extauthz.tell.observe.quota_status import READY, Facts, cut

CONTROLLER = "extauthz.dev/gate"
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")

BLOCKED = "WorkspaceQuotaExceeded"
LOWERED = "WorkspaceQuotaClamped"
UNBLOCKED = "WorkspaceQuotaHasRoom"
AUDITED = "WorkspaceQuotaWouldRefuse"
NEVER = "WorkspaceQuotaNeverFits"
MISSING = "WorkspaceQuotaMissing"
NORMAL = (UNBLOCKED, AUDITED)
ACTION = "Growing"
ENFORCING = "Enforcing"
"""The action of events on quotas."""

MOST_ONCE = 1000
"""Quotas, autoscalers and namespaces that wait for such an event."""

SCALING = "Scaling"
"""The action of events about what an autoscaler may ask for."""

NO_NAMESPACE = "default"
"""Where the events of objects without a namespace are (``validateEvent`` in ``pkg/apis/core/validation/events.go``)."""

REFUSAL = "extauthz.dev/refusal"
"""Annotation of an event."""

MAX_NOTE = 1024
"""Bytes (``NoteLengthLimit`` in ``pkg/apis/core/validation/events.go``)."""

_NAME_MAX = 253 - 17
"""Characters of an object's name that fit before the rest of an event's name."""

_LAST_CLAUSE_MAX = 100

TICK_S = 1.0
"""How late an event may be."""

CALLS_PER_S = 10.0
"""As of the writer of statuses. A thousand workloads blocked at once are told within minutes."""


class _Once(NamedTuple):
    """An event that is written once: a quota is not in force as it is written, or a maximum never fits."""

    about: Subject
    reason: str
    action: str
    message: str
    generation: int = 0
    """Of the object, where what is said is of that."""

    @property
    def event_name(self) -> str:
        """Of several gates that tell the same, one writes the event."""
        told = f"{self.about.uid} {self.generation} {self.message}"
        return f"{self.about.name[:_NAME_MAX].rstrip('-.')}.{sha256(told.encode()).hexdigest()[:16]}"


class KubeEvents:
    """Writes events for the owners of refused workloads.

    Args:
        resources: which kinds a workload may be of, by (group, resource): ``LiveCluster.resources``.
        episodes: those of this gate. Whoever keeps them looks whether they are over.
        instance: who writes, as ``reportingInstance``: the pod's name.
        tell: told once when events begin to fail, and once when they go on.
        clock: seconds since the epoch.
        calls_per_s: at most so many requests a second.
    """

    def __init__(
        self,
        connection: Calls,
        queries: Queries,
        resources: Mapping[tuple[str, str], Resource],
        episodes: Episodes,
        *,
        instance: str,
        tell: Tell,
        clock: Callable[[], float] = time.time,
        tick_s: float = TICK_S,
        calls_per_s: float = CALLS_PER_S,
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._resources = resources
        self._instance = instance[:128] or "extauthz"
        self._tell = tell
        self._clock = clock
        self._tick_s = tick_s
        self._pause_s = 1 / calls_per_s
        self._autoscalers = Autoscalers(connection, clock)
        self._episodes = episodes
        self._once: dict[str, _Once] = {}
        """By the uid of what it is about, or the name of a namespace."""
        self._failing = False
        self.results: Counter[str] = Counter()
        """Events by what became of them: ``created``, ``updated``, ``failed``."""

    def status_written(self, facts: Facts, status: Tree) -> None:
        """A quota's status was written. The gate that writes that a quota is not in force is the one that tells."""
        ready = _ready(status)
        if ready.get("status") == "False" and ready.get("message") != _ready(json.loads(facts.standing.status)).get(
            "message"
        ):
            about = Subject(API_VERSION, KIND, "", facts.standing.name, facts.standing.uid)
            generation = facts.standing.generation
            self._put(about.uid, _Once(about, ready["reason"], ENFORCING, ready["message"], generation))

    def never_fits(self, found: NeverFits) -> None:
        """An autoscaler may ask for more than can ever fit. Does no I/O."""
        self._put(found.autoscaler.uid, _Once(found.autoscaler, NEVER, SCALING, found.sentence))

    def uncovered(self, namespace: str, label: str) -> None:
        """No quota covers a namespace that has such a label. Does no I/O. The event is in that namespace."""
        about = Subject("v1", "Namespace", namespace, namespace, "")
        cure = "correct the label, or create the quota; until then nothing is limited here"
        text = f"no WorkspaceQuota covers this namespace, though it has the label {LABEL}={label}: {cure}"
        self._put(f"namespace {namespace}", _Once(about, MISSING, ENFORCING, text))

    def _put(self, key: str, once: _Once) -> None:
        """Of very many some have no event."""
        if len(self._once) < MOST_ONCE:
            self._once[key] = once

    async def run(self) -> None:
        """Write for ever. Ends by cancellation; what cannot be written is tried again later, or given up."""
        while True:
            await self.write()
            await asyncio.sleep(self._tick_s)

    async def write(self) -> None:
        """Write all that is due, until something cannot be written: the rest is tried at the next tick."""
        for episode in self._episodes.due(self._clock()):
            count = episode.count
            well = await self._trying(self._tell_of(episode, count))
            self._episodes.told(episode, count, self._clock(), well=well)
            if not well:
                return
        for uid, once in list(self._once.items()):
            if not await self._trying(self._tell_once(once)):
                return
            if self._once.get(uid) is once:
                del self._once[uid]
        while self._episodes.ended:
            await self._trying(self._tell_the_end(self._episodes.ended.popleft()))

    async def _trying(self, writing: Coroutine[None, None, None]) -> bool:
        try:
            await writing
        except (ApiError, Unreachable) as error:
            self.results["failed"] += 1
            if not self._failing:
                self._tell("warning", "events-not-written", why=str(error))
            self._failing = True
            return False
        if self._failing:
            self._failing = False
            self._tell("info", "events-written")
        return True

    # What there is to tell, and whom.

    async def _tell_of(self, episode: Episode, count: int) -> None:
        if not episode.notes:
            episode.notes = [Note(about) for about in await self._subjects(episode.ref)]
        for note in episode.notes:
            if note.name and not await self._updated(note, episode, count):
                note.name = ""
            if not note.name:
                reason = AUDITED if episode.audits else LOWERED if episode.lowered else BLOCKED
                told = fitted(episode.sentence, hint(episode.ref))
                note.name = await self._created(note.about, episode, reason, told, count)

    async def _tell_the_end(self, ended: Ended) -> None:
        episode = ended.episode
        written = [note for note in episode.notes if note.name]
        for note in written:
            if episode.count > episode.told:
                await self._updated(note, episode, episode.count)
            if ended.good_news:
                await self._created(note.about, episode, UNBLOCKED, fitted(ended.good_news))

    async def _tell_once(self, once: _Once) -> None:
        more = {"note": cut(once.message, MAX_NOTE), "action": once.action}
        try:
            await self._post(once.about, once.event_name, once.reason, more)
        except ApiError as error:
            if error.status != 409:
                raise

    async def _subjects(self, ref: WorkloadRef) -> list[Subject]:
        """The workload, if it is there, which is first; what its owner writes; and the autoscalers that name it."""
        resource = self._resources.get((ref.group, ref.resource))
        observed = self._queries.observed(ref)
        if resource is None or observed is None or not observed.uid:
            return []
        workload = Subject(resource.api_version, resource.kind, ref.namespace, ref.name, observed.uid)
        top = await owners.top(self._connection, ref.namespace, observed.owner)
        return [workload, *([top] if top is not None else []), *await self._autoscalers.of(workload)]

    # Requests.

    async def _created(self, about: Subject, episode: Episode, reason: str, told: str, count: int = 1) -> str:
        """Create an event of an episode; its name."""
        more: dict[str, Tree] = {"note": told, "action": ACTION}
        if reason != UNBLOCKED:
            more["eventTime"] = _micros(episode.began_s)
        if about is not episode.notes[0].about:
            more["related"] = episode.notes[0].about.reference
        if count > 1:
            more["series"] = _series(count, episode)
        name = f"{about.name[:_NAME_MAX].rstrip('-.')}.{uuid4().hex[:16]}"
        await self._post(about, name, reason, more, _annotations(episode))
        return name

    async def _post(
        self, about: Subject, name: str, reason: str, more: Mapping[str, Tree], annotations: Tree | None = None
    ) -> None:
        namespace = about.namespace or NO_NAMESPACE
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "type": "Normal" if reason in NORMAL else "Warning",
            "reason": reason,
            "eventTime": _micros(self._clock()),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "regarding": about.reference,
            **more,
        }
        await self._call("POST", EVENTS.collection(namespace), event, "application/json")
        self.results["created"] += 1

    async def _updated(self, note: Note, episode: Episode, count: int) -> bool:
        """Bring a series up to date. False if the event is there no more."""
        if count < 2:
            return True
        try:
            await self._call(
                "PATCH",
                EVENTS.object(note.about.namespace, note.name),
                {"series": _series(count, episode)},
                "application/merge-patch+json",
            )
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        self.results["updated"] += 1
        return True

    async def _call(self, method: str, path: str, body: Tree, content_type: str) -> None:
        try:
            await self._connection.call(method, path, body=body, content_type=content_type)
        finally:
            await asyncio.sleep(self._pause_s)


def _ready(status: Tree) -> Tree:
    return next((one for one in status.get("conditions", ()) if one.get("type") == READY), {})


def hint(ref: WorkloadRef) -> str:
    """What to run to learn more."""
    return f"; see: extauthz explain {ref.group_resource}/{ref.name} -n {ref.namespace}"


def fitted(sentence: str, after: str = "") -> str:
    """A sentence and what comes ``after`` it, as long as a note may be.

    That, and the count that fits at the end of the sentence, stay where the middle is cut out.
    """
    most = MAX_NOTE - len(after.encode())
    head, semicolon, tail = sentence.rpartition("; ")
    if len(sentence.encode()) <= most or len(tail) > _LAST_CLAUSE_MAX:
        return cut(sentence, most) + after
    return cut(head, most - len((semicolon + tail).encode())) + semicolon + tail + after


def _annotations(episode: Episode) -> Tree:
    """For programs: why growth is refused, in a word that stays (docs/status.md)."""
    refusal = episode.latest.refusal
    return {REFUSAL: refusal.value} if refusal is not None else {}


def _micros(at_s: float) -> str:
    """A ``metav1.MicroTime``."""
    return stamp(at_s, "microseconds")


def _series(count: int, episode: Episode) -> Tree:
    return {"count": count, "lastObservedTime": _micros(episode.last_s)}

"""Why a workload has this count: its HPA explained from the HPA's own status, and the last events of both.

The arithmetic is ``extauthz.explain``; ``cluster`` reads. It runs in a thread, one at a time, and rests nine times as
long as it took: decisions do not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from extauthz.core.fitting import scaled
from extauthz.core.kinds import BY_KEY, BY_NAME, WorkloadKind
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.fields import at
from extauthz.explain import by_quota, refused, target, when
from extauthz.explain.answer import Change
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import ExplainError, Flags, Objects
from extauthz.explain.sentence import changes, sentence
from extauthz.explain.specs import UnknownError
from extauthz.inputs.kube.resource import Resource
from extauthz.serve.servers.api.people import Judgements
from extauthz.serve.servers.api.rights import Problem, Scope
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.api.shown import named
from extauthz.serve.servers.page import rendering
from extauthz.serve.servers.page.cluster import EVENT, HPA, KEPT_S, MOST_LISTED, Cluster, Event, shown
from extauthz.serve.servers.page.live import REST
from extauthz.serve.servers.page.rendering import View
from extauthz.serve.servers.page.workload import explaining

MOST_METRICS: Final = 4
"""Of an HPA that is explained here. The work grows with their square: four take some 40 ms."""

MOST_POLICIES: Final = 20
"""The same of policies for scaling."""

MOST_HPAS: Final = 3
"""That target one workload. Two fight each other already."""

MOST_WAITING: Final = 8
"""Explanations that wait for their turn."""

MOST_KEPT: Final = 64

BUSY: Final = "Too many others ask just now; try again in a few seconds."

NO_OBJECT: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError, AssertionError)
"""An object that is not as the API server makes it, or a number that is none."""


class Explained(NamedTuple):
    """What one HPA does."""

    name: str
    sentence: str
    steps: Sequence[tuple[bool, str]] = ()
    """Whether it is certain, and what the controller does."""
    would: Sequence[Change] = ()
    """What would do for one more replica."""
    wanted: int | None = None
    """The count that it asks for next, or would; ``None``: it is not explained."""
    wants_more: bool = False
    """It asks for that now."""
    most: int | None = None
    """Its maximum."""
    was_refused: bool = False
    """Its controller says so of its last write."""
    when: str = ""
    """When it acts, if all stays as it is."""

    @property
    def heading(self) -> str:
        """What stands above those that would do."""
        return by_quota.heading([one.kind for one in self.would])


class Explanations(NamedTuple):
    """What is said of a workload's autoscalers."""

    note: str = ""
    """Said where there is nothing to explain."""
    found: Sequence[Explained] = ()


class Why:
    """Makes the view.

    Args:
        cluster: reads.
        clock: any clock in seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._kept: Judgements[Explanations] = Judgements(MOST_WAITING, clock, MOST_KEPT, KEPT_S)

    async def look(self, asked: Asked, now_s: float) -> View:
        """The workload that the path names. Raises Problem where its own page would."""
        ref = await asked.workload()
        use = asked.answers.workload(ref)
        told, (events, note) = await self._both(asked, ref, now_s)
        context = {
            "ref": ref,
            "page": rendering.of_workload(use),
            "command": explaining(ref),
            "told": told,
            "events": events,
            "events_note": note,
        }
        return View(f"{ref.namespace}/{ref.name}", "why", context)

    async def _both(
        self, asked: Asked, ref: WorkloadRef, now_s: float
    ) -> tuple[Explanations, tuple[Sequence[Event], str]]:
        if not self._cluster.is_there:
            note = "This gate reads its state from files, and files tell it of no HorizontalPodAutoscaler."
            return Explanations(note), ([], "This gate reads its state from files, and they have no events.")
        no_hpas, no_events = [await _barred(asked, what, ref.namespace) for what in (HPA, EVENT)]
        told = Explanations(no_hpas) if no_hpas else await self._told(asked, ref, now_s)
        if no_events:
            return told, ([], no_events)
        return told, await self._events(ref, [one.name for one in told.found], now_s)

    async def _told(self, asked: Asked, ref: WorkloadRef, now_s: float) -> Explanations:
        try:
            told = await self._kept.get(ref, asked.rights.name, lambda: self._looked(ref, now_s))
            return told._replace(found=[await _with_quota(asked, ref, one) for one in told.found])
        except Problem:
            return Explanations(BUSY)

    async def _looked(self, ref: WorkloadRef, now_s: float) -> Explanations:
        listed = await self._cluster.hpas(ref.namespace)
        if listed.problem:
            return Explanations(listed.problem)
        hpas = [one for one in listed.items if _targets(one, ref)][:MOST_HPAS]
        if not hpas:
            rest = "" if listed.is_whole else f" among the first {len(listed.items)} of its namespace"
            return Explanations(f"No HorizontalPodAutoscaler{rest} targets it.")
        kind = BY_KEY.get((ref.group, ref.resource))
        if kind is None or not kind.is_gated:
            text = "it targets a custom resource, whose scale the gate does not read; the command below does"
            return Explanations(found=[_left_out(hpa, text) for hpa in hpas])
        return await self._of_object(kind, ref, hpas, now_s)

    async def _of_object(
        self, kind: WorkloadKind, ref: WorkloadRef, hpas: Sequence[Tree], now_s: float
    ) -> Explanations:
        there = await self._cluster.workload(kind, ref.namespace, ref.name)
        if there.problem or not there.items:
            return Explanations(there.problem or "The API server does not have it any more.")
        async with self._turn:
            began_s = self._clock()
            found = await asyncio.to_thread(lambda: [explained(hpa, there.items[0], now_s) for hpa in hpas])
            await self._sleep(REST * (self._clock() - began_s))
        return Explanations(found=found)

    async def _events(self, ref: WorkloadRef, hpas: Sequence[str], now_s: float) -> tuple[Sequence[Event], str]:
        names = dict.fromkeys([ref.name, *hpas])
        try:
            lists = await asyncio.gather(*(self._cluster.events(ref.namespace, name) for name in names))
        except Problem:
            return [], BUSY
        if problem := next((one.problem for one in lists if one.problem), ""):
            return [], problem
        about = {(ref.resource, ref.name), *((HPA.plural, name) for name in hpas)}
        more = "" if all(one.is_whole for one in lists) else f"Of an object's events only {MOST_LISTED} are looked at."
        return shown([tree for one in lists for tree in one.items], about, now_s), more


async def _with_quota(asked: Asked, ref: WorkloadRef, one: Explained) -> Explained:
    """With what the gate says to the count that it asks for, as ``extauthz explain --server`` has it."""
    if one.wanted is None:
        return one
    answers = asked.answers
    decision = await asked.veiled(answers.decision(scaled(ref, one.wanted)))
    headroom = await asked.veiled(answers.headroom(ref))
    visible = await asked.rights.visible(Scope.NAMESPACE, [ref.namespace])
    line = by_quota.line(decision, named(ref), lambda quota: answers.line(quota, visible=visible)["items"])
    quota = {"asked": one.wanted, "decision": decision, "headroom": headroom, "mayAskFor": one.most, "line": line}
    return one._replace(
        sentence=one.sentence + by_quota.sentence(quota, wants_more=one.wants_more, was_refused=one.was_refused),
        would=by_quota.changes(quota, one.would, wants_more=one.wants_more),
    )


async def _barred(asked: Asked, what: Resource, namespace: str) -> str:
    """Why who asks is not told of it; empty: they are."""
    try:
        if await asked.rights.may_list(what.group, what.plural, namespace):
            return ""
    except Problem as problem:
        return f"{problem}."
    return f"You may not list {what.group_resource} in namespace {namespace}."


def _targets(hpa: Tree, ref: WorkloadRef) -> bool:
    to = at(hpa, "spec", "scaleTargetRef")
    kind, group = str(at(to, "kind")), str(at(to, "apiVersion") or "apps/v1").rpartition("/")[0]
    known = BY_NAME.get((group, kind))
    key = known.key if known is not None else (group, target.plural(kind))
    return key == (ref.group, ref.resource) and at(to, "name") == ref.name


def explained(hpa: Tree, workload: Tree, now_s: float) -> Explained:
    """What the HPA does by its own status, as ``extauthz explain --state`` says it of these two objects."""
    try:
        if too_many := _too_many(hpa):
            return _left_out(hpa, f"it has more than {too_many}; the command below explains it")
        scene = scene_of(Objects([hpa, workload]), hpa, Flags(), now_s)
        answer = refused.believed(scene, decide(scene))
        would = changes(scene, answer)
        return Explained(
            scene.hpa["metadata"]["name"],
            sentence(scene, answer, would),
            [(step.certain, step.text) for step in answer.steps],
            would,
            max(answer.desired, scene.target.asked + 1),
            answer.desired > answer.current,
            hpa["spec"]["maxReplicas"],
            answer.outcome == refused.OUTCOME,
            when.of_hpa(scene, answer).text,
        )
    except UnknownError:
        return _left_out(hpa, "its status has no value of one of its metrics; the command below asks for it")
    except ExplainError as error:
        return _left_out(hpa, str(error))
    except NO_OBJECT as error:
        return _left_out(hpa, f"it is not as the API server prints it ({type(error).__name__})")


def _too_many(hpa: Tree) -> str:
    policies = [at(hpa, "spec", "behavior", way, "policies") or [] for way in ("scaleUp", "scaleDown")]
    if len(at(hpa, "spec", "metrics") or []) > MOST_METRICS:
        return f"{MOST_METRICS} metrics"
    return f"{MOST_POLICIES} policies" if sum(map(len, policies)) > MOST_POLICIES else ""


def _left_out(hpa: Tree, why: str) -> Explained:
    name = str(at(hpa, "metadata", "name"))
    return Explained(name, f"hpa/{name} is not explained here: {why}.")

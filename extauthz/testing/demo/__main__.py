"""Runs the demo. Exit code 0 if every scene went as it must, 1 otherwise.

With ``KEEP=1`` the gate's page then stays open until Ctrl-C. ``extauthz demo`` runs it too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..processes import StartError
from .cluster import Cluster, StandIn, World
from .scenes import Outcome, Scene, complaints, outcome_of, scenes, sentence_of
from .screen import Row, Screen

ASKS_EVERY_S = 15.0
"""An HPA asks so often (``--horizontal-pod-autoscaler-sync-period``)."""

ABOUT = """\
Workspace acme may use 12 CPUs and 4 GPUs, of big-corp's 16 CPUs; its lab 3 pods. Requests are sent as recorded from
real autoscalers, by https through a real Envoy, which asks the gate about every write that can grow a workload."""


def main(start: Callable[[Path], Cluster] = StandIn, *, keep: bool | None = None) -> int:
    """Run all scenes on the cluster that ``start`` makes in a directory; the exit code."""
    keep = bool(os.environ.get("KEEP")) if keep is None else keep
    screen = Screen()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="extauthz-demo-") as name, World(Path(name), start(Path(name))) as world:
        screen.heading("extauthz demo: workspace quotas between autoscalers and the API server")
        screen.paragraph(ABOUT)
        try:
            _start(world, screen)
            screen.heading("requests")
            results = [_play(scene, world, screen) for scene in scenes()]
            failed = _secret(world, screen) + sum(1 for _, wrong in results if wrong)
            screen.heading("what happened")
            screen.table([row for row, _ in results])
            code = _end(screen, len(results), failed, time.monotonic() - began)
            if keep:
                _keep(world, screen)
        except (StartError, TimeoutError) as error:
            screen.complain(f"{error}; the gate's log ends with: {world.gate_log()}")
            return 1
    return code


def _start(world: World, screen: Screen) -> None:
    screen.heading("starting")
    parts: dict[str, Callable[[], str]] = {
        f"{world.cluster.title}, holding 3 Deployments": world.start_api,
        "gate (extauthz serve), 3 WorkspaceQuotas": world.start_gate,
        "Envoy (the rendered sidecar), TLS in and out": world.start_envoy,
    }
    for name, start in parts.items():
        began = time.monotonic()
        place = start()
        screen.step(name, f"{place}  {time.monotonic() - began:.1f} s")


def _play(scene: Scene, world: World, screen: Screen) -> tuple[Row, list[str]]:
    """One scene, and what was wrong with it."""
    if scene.headline:
        screen.happens(scene.headline)
    scene.before(world)
    recording = world.cluster.meet(scene.recording, scene.workload)
    if world.gate.running:
        world.cluster.show(world.gate)
    pending_writes = world.pending_writes()
    answer = world.send(recording)
    held = world.cluster.replicas(scene.workload) if scene.workload else None
    wrong = complaints(scene, answer, held)
    if scene.uncharged and world.pending_writes() != pending_writes:
        wrong.append("a question was charged")
    said, held_now = sentence_of(answer), _held(scene, held)
    row = Row(scene.who, scene.what, outcome_of(answer), answer.code, held_now, said, scene.headline)
    screen.step(f"{scene.who}: {scene.what}", f"{answer.protocol}  {row.outcome} {row.code}", good=not wrong)
    for complaint in wrong:
        screen.complain(complaint)
    return row, wrong


def _secret(world: World, screen: Screen) -> int:
    """The number of ways in which a token went astray."""
    arrived, leaked = world.token_reached()
    good = arrived and not leaked
    screen.step("bearer tokens: all at the API server, none at the gate", good=good)
    return 0 if good else 1


def _held(scene: Scene, held: int | None) -> str:
    return f"{held} replicas" if scene.workload else "the new Lease"


def _keep(world: World, screen: Screen) -> None:
    """Leave the page open until Ctrl-C.

    Who asked before asks once more, for the page to tell of it. Who is refused then asks again and again, as an
    autoscaler does.
    """
    address = world.restart_gate()
    asking = [scene for scene in scenes() if scene.outcome in (Outcome.ALLOWED, Outcome.DENIED)]
    with contextlib.suppress(KeyboardInterrupt):
        refused = [scene for scene in asking if _ask(world, scene) == 403]
        screen.heading(f"the page: {address} (Ctrl-C ends it)")
        for scene in itertools.cycle(refused):
            time.sleep(ASKS_EVERY_S)
            _ask(world, scene)


def _ask(world: World, scene: Scene) -> int:
    return world.send(world.cluster.meet(scene.recording, scene.workload)).code


def _end(screen: Screen, played: int, failed: int, seconds: float) -> int:
    verdict = f"{failed} not as they must be" if failed else "all as they must be"
    screen.heading(f"{played} scenes in {seconds:.0f} s, {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

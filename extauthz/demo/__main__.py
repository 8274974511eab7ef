"""Runs the demo and shows what happens. Exit code 0 if every scene went as it must, 1 otherwise.

With ``KEEP=1`` the gate's page then stays open until Ctrl-C. ``extauthz demo`` runs it too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from extauthz.demo.cluster import World
from extauthz.demo.processes import StartError
from extauthz.demo.scenes import Outcome, Scene, complaints, outcome_of, scenes, sentence_of

ASKS_EVERY_S = 15.0
"""An HPA asks so often (``--horizontal-pod-autoscaler-sync-period``)."""

ABOUT = """\
Workspace acme may use 12 CPUs and 4 GPUs, of big-corp's 16 CPUs; its lab 3 pods. Requests are sent as recorded from
real autoscalers, by https through a real Envoy, which asks the gate about every write that can grow a workload."""


COMPLAINT = " " * 6
"""What complaints are indented by."""


def main(*, keep: bool | None = None) -> int:
    """Run all scenes; the exit code."""
    keep = bool(os.environ.get("KEEP")) if keep is None else keep
    screen = Screen()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="extauthz-demo-") as name, World(Path(name)) as world:
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
            screen.paragraph(f"{error}; the gate's log ends with: {world.gate_log()}", COMPLAINT)
            return 1
    return code


def _start(world: World, screen: Screen) -> None:
    screen.heading("starting")
    parts: dict[str, Callable[[], str]] = {
        "API server (stand-in), holding 3 Deployments": world.start_api,
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
        screen.line(f"  · {scene.headline}")
    scene.before(world)
    world.cluster.meet(scene.recording, scene.workload)
    if world.gate.running:
        world.cluster.show(world.gate)
    pending_writes = world.pending_writes()
    answer = world.send(scene.recording)
    held = world.cluster.replicas(scene.workload) if scene.workload else None
    wrong = complaints(scene, answer, held)
    if scene.uncharged and world.pending_writes() != pending_writes:
        wrong.append("a question was charged")
    outcome = f"{outcome_of(answer)} {answer.code}"
    screen.step(f"{scene.who}: {scene.what}", f"{answer.protocol}  {outcome}", good=not wrong)
    for complaint in wrong:
        screen.paragraph(complaint, COMPLAINT)
    holds = f"{held} replicas" if scene.workload else "the new Lease"
    return Row((scene.who, scene.what, outcome, holds), sentence_of(answer), scene.headline), wrong


def _secret(world: World, screen: Screen) -> int:
    """The number of ways in which a token went astray."""
    arrived, leaked = world.token_reached()
    good = arrived and not leaked
    screen.step("bearer tokens: all at the API server, none at the gate", good=good)
    return 0 if good else 1


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
    world.cluster.meet(scene.recording, scene.workload)
    return world.send(scene.recording).code


def _end(screen: Screen, played: int, failed: int, seconds: float) -> int:
    verdict = f"{failed} not as they must be" if failed else "all as they must be"
    screen.heading(f"{played} scenes in {seconds:.0f} s, {verdict}")
    return 1 if failed else 0


# What it shows: lines while it runs, then a table. At most 100 columns, and no colour.

MAX_WIDTH = 100


class Row(NamedTuple):
    """One line of the table, with its sentence below."""

    cells: Sequence[str]
    """By ``HEADINGS``, but the number."""
    sentence: str
    headline: str = ""
    """What happened before, and was no request."""


HEADINGS = ("#", "who asked", "for what", "decision", "API server then holds")


class Screen:
    """Writes to a stream, and knows its width."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self.width = max(60, min(shutil.get_terminal_size((MAX_WIDTH, 24)).columns, MAX_WIDTH))

    def heading(self, text: str) -> None:
        self.line("\n" + text)

    def step(self, text: str, result: str = "", *, good: bool = True) -> None:
        """A line of progress."""
        self.line(f"  {'✓' if good else '✗'} {text.ljust(52)} {result}")

    def table(self, rows: Sequence[Row]) -> None:
        """The columns take what they need; sentences are wrapped below their row."""
        lines = [HEADINGS, *((str(number), *row.cells) for number, row in enumerate(rows, 1))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        first, *more = ("  ".join(map(str.ljust, cells, widths)) for cells in lines)
        self.line(first)
        self.line("─" * self.width)
        for row, line in zip(rows, more, strict=True):
            if row.headline:
                self.paragraph(f"· {row.headline}")
            self.line(line)
            self.paragraph(row.sentence, " " * (widths[0] + 2))

    def paragraph(self, text: str, indent: str = "") -> None:
        for line in textwrap.wrap(text, self.width - len(indent), break_long_words=False, break_on_hyphens=False):
            self.line(indent + line)

    def line(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.rstrip().encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


if __name__ == "__main__":
    sys.exit(main())

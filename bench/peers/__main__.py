"""``python -m bench.peers``: measure, write ``bench/out/peers.md`` and its picture; exit 1 where a goal is missed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import machine, report
from bench.__main__ import OUT
from bench.webhook import NEEDED
from tests.controlplane import parts
from tests.controlplane.build import BuildError

from . import authorizers, building, growth, pace, tail

NOTES = {
    "authorizers": (
        "Behind Envoy: each authorizer behind an Envoy of its own with the gate's own configuration, the writes of "
        "KPA and HPA in turn, each for more replicas than the last of its workload. Envoy answers what is allowed "
        "itself. 32 TLS connections; Envoy and the client on one processor, the authorizer on another."
    ),
    "growth": (
        "Growth: a write of a count and the pods that it makes room for, through a real API server; 32 clients, and "
        "one for the times. Processor time is that of API server, etcd, gate and Envoy together. The gate writes its "
        "ledger as gates do that share one."
    ),
    "crowd": (
        "Tail: what a decision takes, its agreement on the ledger among it, as the gate's own histogram is told. "
        "Ready: from the start of the process; the list is of Deployments, ReplicaSets and pods, page by page by the "
        "gate's client, of which nothing is kept, in a process that runs already."
    ),
    "pace": "Pace: counts of two tenants' Deployments at a steady pace through Envoy; none may find the ledger full.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 1 where a goal is missed or a part is not there."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="This part; may be repeated.")
    parser.add_argument("--quick", action="store_true", help="A smoke run: every row, no goal judged.")
    parser.add_argument("--out", type=Path, default=OUT, help="Where the report goes.")
    asked = parser.parse_args(arguments)
    say = partial(_say, time.monotonic())
    if missing := parts.missing(NEEDED):
        print(f"bench.peers: {missing[0]}", file=sys.stderr)
        return 1
    try:
        say("building what is in Go, once")
        programs = building.built()
    except BuildError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 1
    figures, notes = [], []
    for name in asked.only or PARTS:
        with machine.Others() as others:
            part = PARTS[name]
            figures += part.measure(part.QUICK if asked.quick else part.FULL, programs, say)
        notes += [NOTES[name], f"While {name} was measured {others}."]
        say(notes[-1])
    asked.out.mkdir(parents=True, exist_ok=True)
    report.plot(figures, asked.out / "peers.png")
    (asked.out / "peers.md").write_text(report.markdown(figures, notes, title="Beside the peers", picture="peers.png"))
    print(f"\n{report.text(figures)}\n\nwritten: {asked.out}/peers.md and peers.png")
    return int(not asked.quick and any(figure.missed for figure in figures))


PARTS = {"authorizers": authorizers, "growth": growth, "crowd": tail, "pace": pace}
"""Each has ``measure``, and how much of it: ``FULL`` and ``QUICK``."""


def _say(start: float, what: str) -> None:
    print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m bench``: measure, write ``bench/out/report.md`` and ``report.png``, and exit 1 where a goal is missed."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from . import (
    bystanders,
    check,
    cluster,
    commands,
    decision,
    events,
    full_house,
    guarantees,
    neighbours,
    policies,
    record,
    report,
    sharing,
    turns,
    webhook,
)
from .figures import Figure
from .population import WORKLOADS_PER_TEMPLATE

OUT = Path(__file__).parent / "out"

NOTES = (
    "All ratios are of pairs measured in turn in one run; times depend on the machine and are not judged.",
    "Throughput: 32 calls under way on one connection, from a client that costs little; 2,000 Deployments, each "
    "with its ReplicaSet; KPA's and HPA's recorded requests in turn, each for more replicas than the last of its "
    "workload, each a charged grant. Writes under way are those of W, as in use. The "
    "floor is a handler on grpc.aio as anybody would write it. Beside one on the gate's own gRPC server, what is "
    "left is the decision. Judged is processor time: rates depend on what else "
    "runs (docs/internals/peers.md).",
    "Decision: processor time; workloads drawn at random from all, each decision a charged grant. The small gate's "
    "caches hold more of its workloads, so that the ratio is no lower than the truth.",
    "Full house: autoscalers that ask at their own pace, in simulated hours, with turns and "
    "without; a wait beyond one's turn is over its interval.",
    "Turn of the loop: processor time, with 60,000 Deployments under 600 quotas; the longest of an event's steps "
    "and of all slices of what it has counted anew, turn by turn the least of three tries.",
    "Record: a decision is told to log and metrics as in use; recording it includes the thread that folds, formats, "
    "packs and writes. The replay is of 30 days in which a fifth of all asks changes what a workload wants.",
    "Commands: processor time of whole processes, the interpreter's start in both; tests/unit/test_loads.py names what "
    "each loads.",
    "Bystanders: one client asks for growth, 5 ms after each answer, by turns alone and beside four attackers, who "
    "send the bodies that cost the reader most, silent connections, or resets. "
    "Peak memory is that of the gate and of the process that reads long bodies.",
    f"Memory: growth of the resident set by Deployments with a name, labels, a selector, a UID and a resourceVersion "
    f"of their own, names of some 20 characters; {WORKLOADS_PER_TEMPLATE} workloads share a pod template.",
    "Live cluster: a real API server; ready from the start of the process; the list is paged, by the same client, and "
    "nothing is kept of it; memory beyond that of a gate on an empty cluster; API calls as the server counts them.",
    "Shared ledger: two gates that write the same WorkspaceLedger in a real API server, 32 growing checks under way at "
    "each, every one of which the access log tells to be refused; beside two of the same release that write it once a "
    "decision. Writes that lost against another gate's, and those that only take out what has ended, count as writes. "
    "Latency: one check at a time, beside a gate with a ledger in memory. Free: zero targets, dry runs, refusals, and "
    "an HPA's write of the count that is there. Neighbours: one gate, two tenants, and one leaves its writes open.",
    "Webhook: growth writes of counts, each client at its own Deployment: without a webhook, with one in Go that lets "
    "everything pass, and with ours, in turn on one API server. The figure is what a write takes more than without. "
    "Both webhooks are asked by the same configuration, over a Service. Judged is the goal that was set beforehand: so "
    "many clients, each of which sends the next write once the last is answered. On few processors that measures their "
    "queue, and so what else the machine does.",
)


def main() -> int:
    """Run all parts; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="A smoke run: every row, no goal judged.")
    parser.add_argument("--out", type=Path, default=OUT, help="Where the report goes.")
    arguments = parser.parse_args()
    figures = measure(quick=arguments.quick)
    arguments.out.mkdir(parents=True, exist_ok=True)
    report.plot(figures, arguments.out / "report.png")
    (arguments.out / "report.md").write_text(report.markdown(figures, NOTES))
    print(f"\n{report.text(figures)}\n\nwritten: {arguments.out}/report.md and report.png")
    return int(not arguments.quick and any(figure.missed for figure in figures))


PARTS = (
    decision,  # first: memory is measured on a heap that nothing used before
    turns,
    full_house,
    events,
    guarantees,
    policies,
    record,
    commands,
    check,
    bystanders,
    cluster,
    sharing,
    neighbours,
    webhook,
)
"""Each has ``measure``, and how much of it: ``FULL`` and ``QUICK``."""


def measure(*, quick: bool) -> list[Figure]:
    """All figures, part by part."""
    say = partial(_say, time.monotonic())
    return [row for part in PARTS for row in part.measure(part.QUICK if quick else part.FULL, say)]


def _say(start: float, what: str) -> None:
    print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

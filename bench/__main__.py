"""``python -m bench``: measure, write ``bench/out/report.md`` and ``report.png``, and exit 1 where a goal is missed."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from . import bystanders, cluster, decision, events, report, webhook
from .figures import Figure
from .population import WORKLOADS_PER_TEMPLATE

OUT = Path(__file__).parent / "out"

NOTES = (
    "All ratios are of pairs measured in turn in one run; times depend on the machine and are not judged.",
    "Decision: processor time; workloads drawn at random from all, each decision a charged grant. The small gate's "
    "caches hold more of its workloads, so that the ratio is no lower than the truth.",
    "Turn of the loop: processor time, with 60,000 Deployments under 600 quotas; the longest of an event's steps "
    "and of all slices of what it has counted anew, turn by turn the least of three tries.",
    "Bystanders: one client asks for growth, 5 ms after each answer, by turns alone and beside four attackers, who "
    "send the bodies that cost the reader most, writes that the costliest policies judge, silent connections, or "
    "resets. "
    "Peak memory is that of the gate and of the process that reads long bodies.",
    f"Memory: growth of the resident set by Deployments with a name, labels, a selector, a UID and a resourceVersion "
    f"of their own, names of some 20 characters; {WORKLOADS_PER_TEMPLATE} workloads share a pod template.",
    "Live cluster: a real API server; ready from the start of the process; the list is paged, by the same client, and "
    "nothing is kept of it; memory beyond that of a gate on an empty cluster; API calls as the server counts them.",
    "Webhook: growth writes of counts, each client at its own Deployment: without a webhook, with one in Go that lets "
    "everything pass, and with ours, in turn on one API server. The figure is what a write takes more than without. "
    "Both webhooks are asked by the same configuration, over a Service. Each client sends the next write once the last "
    "is answered: on few processors that measures their queue, and so what else the machine does. For context, not as "
    f"a ratio: {webhook.KYVERNO}.",
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


def measure(*, quick: bool) -> list[Figure]:
    """All figures, part by part. The decision comes first: memory is measured on a heap that nothing used before."""
    say = partial(_say, time.monotonic())
    return [
        *decision.measure(decision.QUICK if quick else decision.FULL, say),
        *events.measure(events.QUICK if quick else events.FULL, say),
        *bystanders.measure(bystanders.QUICK if quick else bystanders.FULL, say),
        *cluster.measure(cluster.QUICK if quick else cluster.FULL, say),
        *webhook.measure(webhook.QUICK if quick else webhook.FULL, say),
    ]


def _say(start: float, what: str) -> None:
    print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

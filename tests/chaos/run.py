"""One run: build everything, let scalers and faults loose on it, let it come to rest, and look."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from extauthz.demo.gate import SERVE
from extauthz.tools.render.webhook import WebhookOptions, configuration
from tests.chaos import estate
from tests.chaos.estate import Scalers
from tests.chaos.faults import Faults
from tests.chaos.history import Judge, Watcher
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.sites import LEDGER, Site, Sites
from tests.support.balancing import Balancer
from tests.waiting import eventually

GATES, SCALERS = 3, 50
WRITE_S = 5
"""The finite timeout of Envoy's route, and the API server's for a request."""
W_S = 15.0
"""2 s for the decision, twice ``WRITE_S``, and what etcd is stopped for."""
REST_WITHIN_S = 120.0
PAST_ENVOY = {"both": 1 / 3, "envoy": 0.0, "webhook": 1.0}
"""How many scalers have no Envoy before them."""
ENTRANCES = ("both", "envoy", "webhook")
"""Who asks the gates. Where it is both, a third of the scalers have no Envoy before them."""
APISERVER = ("--storage-media-type=application/json", "--etcd-compaction-interval=0", f"--request-timeout={WRITE_S}s")


@dataclass(frozen=True)
class Report:
    """What has come of it."""

    judge: Judge
    said: Counter[str]
    faults: Counter[str]
    revisions: int
    restless: list[str]
    """What was not as it should be at the end: something reserved, or usage that is not exact."""
    webhook_connections: int
    """That the API server has opened."""

    @property
    def failures(self) -> list[str]:
        idle = [] if self.said["200"] and self.said["403"] else ["nothing was granted, or nothing refused"]
        return self.judge.in_excess + self.restless + idle

    def text(self) -> str:
        counts = ", ".join(f"{number} × {what}" for what, number in self.said.most_common())
        faults = ", ".join(f"{number} × {what}" for what, number in self.faults.most_common())
        changes = self.judge.changes["Deployment"]
        lines = [
            self.judge.table(),
            "",
            f"answers: {counts}",
            f"faults: {faults or 'none'}",
            f"connections to the webhook: {self.webhook_connections}",
            f"history: {self.revisions} revisions, of Deployments {changes}",
            *(f"VIOLATED: {failure}" for failure in self.failures),
        ]
        return "\n".join(lines)


def run(
    folder: Path,
    seconds: float,
    seed: int,
    say: Callable[[str], None],
    serve: Sequence[str] = SERVE,
    *,
    calm: bool = False,
    hunts: bool = False,
    entrances: str = "both",
) -> Report:
    """All of it. Call it from the main thread: what it starts ends with the thread that started it.

    Args:
        calm: without faults.
        hunts: ends as soon as something went over.
        entrances: one of ``ENTRANCES``.
    """
    for name in ("plane", "sites"):
        (folder / name).mkdir(parents=True)
    judge = Judge(W_S)
    say("starting etcd, the API server, gates and Envoys")
    with (
        running_plane(APISERVER, folder / "plane") as plane,
        Watcher(plane.etcd_url, judge) as watcher,
        Sites(plane, folder / "sites", GATES, W_S, serve=serve, write_s=WRITE_S) as sites,
        Balancer([site.webhook_port for site in sites]) as balancer,
    ):
        workloads = estate.build(plane)
        eventually(lambda: len(plane.api.list(LEDGER)) == 1)
        say(f"the new ledger holds growth back for {W_S:.0f} s")
        sites.await_no_hold()
        if entrances != "envoy":
            options = WebhookOptions(ca=plane.ca.read_bytes(), url=f"https://127.0.0.1:{balancer.port}")
            plane.api.create(configuration(options))
        faults = Faults(sites, seed)
        with Scalers(sites, workloads, SCALERS, seed, past_envoy=PAST_ENVOY[entrances]) as scalers:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s and not (hunts and judge.in_excess):
                time.sleep(1.0)
                if not calm:
                    faults.next()
                    say(f"{', '.join(f'{n} × {code}' for code, n in scalers.said.most_common(5))}")
        say("coming to rest")
        restless = _restless(sites, judge, watcher)
    return Report(judge, scalers.said, faults.done, watcher.revision, restless, balancer.opened)


def _restless(sites: Sites, judge: Judge, watcher: Watcher) -> list[str]:
    """Waits until no write is pending and every gate counts what is really there; else what it is that differs."""
    newest = int(sites.plane.api.call("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"])
    eventually(lambda: watcher.revision >= newest or watcher.ended, lambda: (watcher.revision, newest))
    found: list[str] = []

    def is_at_rest() -> bool:
        found[:] = [wrong for number, site in enumerate(sites) for wrong in _wrong(number, site, judge)]
        try:
            pending_writes = sites.payload().pending_writes
        except RefusedError as error:
            found.append(f"the ledger was deleted, and not made anew yet: {error}")
        else:
            if pending_writes:
                found.append(f"the ledger still holds {len(pending_writes)} pending writes")
        return not found

    deadline = time.monotonic() + REST_WITHIN_S
    while not is_at_rest() and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def _wrong(number: int, site: Site, judge: Judge) -> list[str]:
    page = site.gate.page("/metrics").splitlines()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in page if not line.startswith("#")}
    wrong = []
    for (quota, resource), account in judge.accounts.items():
        wanted = {"used": account.now / 1000, "reserved": 0.0, "hard": account.hard / 1000}
        for what, amount in wanted.items():
            counted = values.get(f'extauthz_quota_{what}{{quota="{quota}",resource="{resource}"}}', 0.0)
            if counted != amount:
                wrong.append(f"gate {number}: {what} of {quota} {resource} is {counted:g} and not {amount:g}")
    return wrong

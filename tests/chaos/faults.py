"""What befalls the gates and what they stand on; each fault mends itself before the next one comes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from extauthz.serve.ledger_store.kubernetes import NAME
from tests.chaos import estate
from tests.controlplane.api import MERGE, RefusedError, path_of
from tests.controlplane.sites import LEDGER, Site, Sites

ETCD_STOPS_S = 2.0
"""Less than W leaves for writes that are late."""


class Faults:
    """One after the other, as the seed has it."""

    def __init__(self, sites: Sites, seed: int) -> None:
        self._sites = sites
        self._choose = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._deck: list[Callable[[], None]] = []

    def next(self) -> None:
        """Each kind once before any comes again."""
        if not self._deck:
            self._deck = [
                self.kill_a_gate,
                self.stop_a_gate_and_let_it_go_on,
                self.cut_all_connections_of_a_gate,
                self.change_a_limit,
                self.restart_the_api_server,
                self.stop_etcd_for_a_while,
                self.move_a_quota,
                self.change_a_limit,
                self.kill_all_gates,
                self.delete_a_ledger,
            ]
            self._choose.shuffle(self._deck)
        fault = self._deck.pop()
        fault()
        self.done[fault.__name__.replace("_", " ")] += 1

    def _a_site(self) -> Site:
        return self._choose.choice(list(self._sites))

    def _a_while(self, most_s: float) -> None:
        time.sleep(self._choose.uniform(0.2, most_s))

    def kill_a_gate(self) -> None:
        site = self._a_site()
        site.gate.kill()
        self._a_while(2.0)
        site.gate.start()

    def kill_all_gates(self) -> None:
        for site in self._sites:
            site.gate.kill()
        for site in self._sites:
            site.gate.start()

    def stop_a_gate_and_let_it_go_on(self) -> None:
        site = self._a_site()
        site.signal(signal.SIGSTOP)
        try:
            self._a_while(5.0)
        finally:
            site.signal(signal.SIGCONT)

    def cut_all_connections_of_a_gate(self) -> None:
        site = self._a_site()
        for _ in range(3):
            site.wire.cut()
            self._a_while(0.5)

    def restart_the_api_server(self) -> None:
        self._sites.plane.restart()

    def stop_etcd_for_a_while(self) -> None:
        os.kill(self._sites.plane.etcd.pid, signal.SIGSTOP)
        try:
            self._a_while(ETCD_STOPS_S)
        finally:
            os.kill(self._sites.plane.etcd.pid, signal.SIGCONT)

    def change_a_limit(self) -> None:
        name = self._choose.choice(sorted(estate.QUOTAS))
        resource, usual = self._choose.choice(sorted(estate.QUOTAS[name].hard.items()))
        hard = max(1, round(usual * self._choose.choice([0.5, 1, 1.5])))
        self._patch(name, {"hard": {resource: str(hard)}})

    def move_a_quota(self) -> None:
        self._patch(estate.MOVES, {"parent": self._choose.choice(estate.MOVES_TO)})

    def delete_a_ledger(self) -> None:
        try:
            self._sites.plane.api.delete(LEDGER, NAME)
        except RefusedError as error:
            if error.code != 404:
                raise

    def _patch(self, name: str, spec: dict[str, object]) -> None:
        self._sites.plane.api.call("PATCH", path_of("WorkspaceQuota", None, name), {"spec": spec}, MERGE)

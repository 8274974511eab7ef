"""Answers that files give, by a gate made of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from extauthz.cli.flags.settings import effective
from extauthz.core.decision.gate import Gate
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.texts import MAX_SENTENCE, cut
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.cluster.file import StateFile
from extauthz.inputs.files import content
from extauthz.inputs.files.objects import Placed
from extauthz.inputs.sources import file as quota_file
from extauthz.serve.servers.api import questions
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.service import pod_groups
from extauthz.serve.service.ids import new_id
from extauthz.serve.service.setting_types import KUBERNETES, SettingsError
from extauthz.serve.service.settings import policy

SAVED: Final = {
    "quotas": "kubectl get workspacequotas -o yaml > quotas.yaml",
    "state": "kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml > state.yaml",
}
"""How to get the files from a cluster."""


def asked(arguments: argparse.Namespace, more: Sequence[Placed] = ()) -> Files:
    """A gate that knows what the files say, and ``more``. Raises as ``asking.source``."""
    if arguments.quotas is None or arguments.state is None:
        raise SettingsError(
            "say where to look: --quotas FILE --state FILE, or --server URL of a gate that runs; of one in a cluster "
            "run kubectl -n extauthz-system port-forward service/extauthz 9192, and say --server http://127.0.0.1:9192"
        )
    for name, given in (("quotas", arguments.quotas), *(("state", path) for path in arguments.state)):
        if str(given) == KUBERNETES or str(given).startswith(("http:/", "https:/")):
            raise SettingsError(
                f"--{name}: files are read here, not {given}; save them first: {SAVED[name]}; or use --server"
            )
    where = pod_groups.where(effective(arguments).pod_groups, getattr(arguments, "custom", ()))
    now_s = time.time() if arguments.now is None else arguments.now

    def state() -> StateFile:
        return state_file.parse([one for path in arguments.state for one in content.read(path)], where, more)

    return of_state(arguments, state, now_s)


def of_state(arguments: argparse.Namespace, state: Callable[[], StateFile], now_s: float) -> Files:
    """A gate with the quotas of ``--quotas`` and that state, which is read after them. Raises as ``asking.source``."""
    made = Gate(policy(effective(arguments)))
    made.epoch_s = now_s
    quotas = quota_file.load(arguments.quotas)
    made.load_quotas(quotas.tree, 0.0)
    made.ledger.usage.on_unreadable = unreadable
    found = state()
    made.load_state(found.state, 0.0)
    sys.stderr.writelines(f"extauthz: warning: {one}\n" for one in (*quotas.warnings, *found.warnings))
    return Files(made)


def unreadable(ref: WorkloadRef, error: Exception) -> None:
    """Say of which workload the cost is not known, and why."""
    why = cut(repr(error), MAX_SENTENCE)
    sys.stderr.write(f"extauthz: {ref} cannot be read, so its cost is not known: {why}\n")


class Files:
    def __init__(self, known: Gate) -> None:
        decide = lambda reading: known.asked(reading, new_id(), 0.0)  # noqa: E731
        self._answers = Answers(Queries(known.ledger), decide, lambda: 0.0, customs=known.customs)
        self.quota, self.line, self.headroom = self._answers.quota, self._answers.line, self._answers.headroom

    def quotas(self) -> list[dict[str, Any]]:
        return list(self._answers.quotas(limit=10**9)["items"])

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        import asyncio

        return asyncio.run(self._answers.workloads(quota, sort, limit))

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._answers.decision(questions.write(asked, self._answers.customs))

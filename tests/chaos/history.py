"""What has really happened: every revision of every object, from etcd itself, judged by code that knows no gate.

Shares nothing with ``extauthz``: neither how a quota is read, nor what a workload costs, nor who reports it. The API
server must store JSON (``--storage-media-type=application/json``) and never compact (``--etcd-compaction-interval=0``).
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf
from typing import Any, NamedTuple

import httpx

from tests.controlplane.load import Together

Tree = Any
Line = tuple[str, str]
"""Quota and resource."""
PREFIX = "/registry/"
KINDS = {
    "deployments": "Deployment",
    "namespaces": "Namespace",
    "extauthz.dev/workspacequotas": "WorkspaceQuota",
    "extauthz.dev/workspaceledgers": "WorkspaceLedger",
}
SILENCE_S = 1.0


class Change(NamedTuple):
    """One revision of one object; ``tree`` is ``None`` where it was deleted."""

    revision: int
    at_s: float
    """When it was learnt of, at the latest when it had happened that long ago: etcd may have been stopped."""
    kind: str
    name: str
    tree: Tree | None


@dataclass(slots=True)
class Account:
    """How one resource of one quota has fared."""

    hard: int = 0
    now: int = 0
    highest: int = 0
    """What it was ever grown to, excused or not, where it was fullest."""
    of: int = 1
    """The limit then, or what was excused."""
    growths: int = 0
    cuts: int = 0
    excused: deque[tuple[float, float]] = field(default_factory=deque)
    """Until when, and up to where: what was granted before a cut may land for a landing window, and so may a write that
    raised nothing above what was there when it was decided."""
    in_excess: list[str] = field(default_factory=list)
    """Growth beyond the limit in force: what must never be."""


class Judge:
    """Replays changes in their order, and says when growth went beyond a limit.

    Args:
        window_s: the landing window. What was granted before a cut may land so long after it.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._objects: dict[str, dict[str, Tree]] = {kind: {} for kind in KINDS.values()}
        self.accounts: dict[Line, Account] = {}
        self.changes: Counter[str] = Counter()

    def take(self, change: Change) -> None:
        """The next revision."""
        self.changes[change.kind] += 1
        objects = self._objects[change.kind]
        if change.tree is None:
            objects.pop(change.name, None)
        else:
            objects[change.name] = change.tree
        if change.kind != "Deployment":
            self._set_limits(change)
        self._charge(change)

    def _set_limits(self, change: Change) -> None:
        """Other limits, or others to whom they apply."""
        for quota, tree in self._objects["WorkspaceQuota"].items():
            for resource, text in tree["spec"].get("hard", {}).items():
                hard = _amount(text)
                account = self.accounts.setdefault((quota, resource), Account(hard=hard))
                if hard < account.hard:
                    account.cuts += 1
                    self._excuse(account, change, account.hard)
                account.hard = hard

    def _charge(self, change: Change) -> None:
        charges = self.charges()
        for line, account in self.accounts.items():
            before, account.now = account.now, charges.get(line, 0)
            if account.now < before:
                self._excuse(account, change, before)
            if account.now <= before:
                continue
            if change.kind != "Deployment":  # others are covered now: as good as a cut
                if account.now > account.hard:
                    account.cuts += 1
                self._excuse(account, change, inf)
                continue
            account.growths += 1
            limit = max(account.hard, self._excused_to(account, change.at_s))
            if limit < inf and account.now * account.of > account.highest * limit:
                account.highest, account.of = account.now, int(limit)
            if account.now > limit:
                account.in_excess.append(
                    f"revision {change.revision}: {change.name} took {line[0]} from {_shown(before)} to "
                    f"{_shown(account.now)} {line[1]}, of {_shown(account.hard)}"
                )

    def _excuse(self, account: Account, change: Change, to: float) -> None:
        account.excused.append((change.at_s + self._window_s, to))

    @staticmethod
    def _excused_to(account: Account, at_s: float) -> float:
        while account.excused and account.excused[0][0] < at_s:
            account.excused.popleft()
        return max((to for _, to in account.excused), default=0)

    def charges(self) -> dict[Line, int]:
        """What all Deployments together come to, by quota and resource, in thousandths."""
        total: Counter[Line] = Counter()
        for tree in self._objects["Deployment"].values():
            namespace = self._objects["Namespace"].get(tree["metadata"]["namespace"], {"metadata": {}})
            cost = _cost(tree)
            for quota in self._over(namespace["metadata"].get("labels", {})):
                for resource, amount in cost.items():
                    total[quota, resource] += amount
        return total

    def _over(self, labels: Mapping[str, str]) -> set[str]:
        quotas = self._objects["WorkspaceQuota"]
        found: set[str] = set()
        for name, tree in quotas.items():
            wanted = tree["spec"].get("namespaceSelector", {}).get("matchLabels")
            if wanted is None or not wanted.items() <= labels.items():
                continue
            at: str | None = name
            while at is not None and at not in found:
                found.add(at)
                at = quotas.get(at, {"spec": {}})["spec"].get("parent")
        return found

    @property
    def in_excess(self) -> list[str]:
        return [one for account in self.accounts.values() for one in account.in_excess]

    def table(self) -> str:
        """A row for each resource of each quota."""
        head = ("quota", "resource", "hard", "highest", "of", "growths", "cuts", "in excess")
        rows = [
            (
                *line,
                _shown(one.hard),
                _shown(one.highest),
                _shown(one.of),
                str(one.growths),
                str(one.cuts),
                str(len(one.in_excess)),
            )
            for line, one in sorted(self.accounts.items())
        ]
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))


def _cost(tree: Tree) -> dict[str, int]:
    spec = tree["spec"]
    containers = spec["template"]["spec"]["containers"]
    cpu = sum(_amount(each.get("resources", {}).get("requests", {}).get("cpu", "0")) for each in containers)
    return {"pods": spec["replicas"] * 1000, "requests.cpu": spec["replicas"] * cpu}


def _amount(text: str) -> int:
    """Thousandths. Only what is written here is read: integers, decimals and ``m``."""
    return int(text[:-1]) if text.endswith("m") else int(Decimal(text) * 1000)


def _shown(amount: int) -> str:
    return f"{amount / 1000:g}"


class Watcher(Together):
    """Follows etcd from its first revision on, in a thread of its own; where it is cut off it goes on where it was."""

    def __init__(self, etcd_url: str, judge: Judge) -> None:
        super().__init__(self._follow)
        self._url = etcd_url
        self._judge = judge
        self.revision = 0
        """Of the last change of anything, all before it included."""

    def _follow(self) -> None:
        with httpx.Client(base_url=self._url, timeout=httpx.Timeout(5.0, read=SILENCE_S)) as client:
            while not self.ended:
                try:
                    for change in self._changes(client):
                        self._judge.take(change)
                except httpx.HTTPError:
                    time.sleep(0.05)

    def _changes(self, client: httpx.Client) -> Iterator[Change]:
        wanted = {"key": _base64(PREFIX), "range_end": _base64(PREFIX[:-1] + "0"), "start_revision": self.revision + 1}
        with client.stream("POST", "/v3/watch", json={"create_request": wanted}) as stream:
            for line in stream.iter_lines():
                result = json.loads(line)["result"]
                if "compact_revision" in result:
                    raise RuntimeError(f"history before {result['compact_revision']} is lost")
                for event in result.get("events", ()):
                    change = _change(event)
                    if change is not None:
                        yield change
                    self.revision = int(event["kv"]["mod_revision"])
                if self.ended:
                    return


def _change(event: Tree) -> Change | None:
    key = base64.b64decode(event["kv"]["key"]).decode().removeprefix(PREFIX)
    for path, kind in KINDS.items():
        if key.startswith(f"{path}/"):
            tree = None if event.get("type") == "DELETE" else json.loads(base64.b64decode(event["kv"]["value"]))
            name = key.removeprefix(f"{path}/")
            return Change(int(event["kv"]["mod_revision"]), time.monotonic(), kind, name, tree)
    return None


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

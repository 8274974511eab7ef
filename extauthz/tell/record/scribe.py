"""Makes lines of what a recorder notes: folds retries, leaves out what repeats, begins files with the whole state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from extauthz.core.kinds import STATEFUL_SETS
from extauthz.core.ledger.accounts import NOTHING, Position
from extauthz.core.ledger.pod_costs import count_each
from extauthz.core.model import Amounts, Decision, Evidence, Labels, Lower, Verdict, WorkloadRef
from extauthz.core.quota.spec import dumped
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record import lines
from extauthz.tell.record.files import Files

REWRITTEN_S: Final = 60.0
"""How late a line of retries may say how many there were."""


_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
"""Keys that count claims end so."""

MOVES_S: Final = 0.05
"""How soon what only moves is back. It is counted out and in by one call."""


PLAIN: Final = frozenset({"fits", "no-growth"})
"""Reasons of grants that nobody has anything against, of workloads that are known."""


class Object(NamedTuple):
    """What a question brings beside a count."""

    pod: Amounts | None
    """What one pod costs, nano-units by key; ``None``: not known."""
    labels: Labels


class Seen(NamedTuple):
    """What a line says of a workload beside its cost."""

    labels: Labels
    version: str
    """The resourceVersion."""
    pod: Amounts | None
    """What one pod of its template costs, nano-units by key; ``None``: not known."""
    replicas: int = 0
    """Those that are observed."""
    may: Amounts | None = None
    """What each replica may come to cost by objects that were admitted and may still land; ``None``: nothing more."""


Note: TypeAlias = tuple[float, Callable[..., None], tuple[object, ...]]
"""What the scribe is told, in its turn: when, in seconds since 1970; a method of its; and what that is given."""


@dataclass(slots=True)
class _Fold:
    """Equal refused questions of one workload."""

    ref: WorkloadRef
    what: tuple[object, ...]
    ask: lines.Ask
    roots: frozenset[str]
    told: int = 1
    """How many of them are in the file."""
    told_s: float = 0.0


_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept", bound=lines.Line)


class Scribe:
    """One gate's lines.

    Args:
        files: where they go.
        head: what each file begins with, beside the time: gate, version, run, settings that decide.
    """

    def __init__(self, files: Files, head: Mapping[str, Any]) -> None:
        self._files = files
        self._head = head
        self._roots: dict[str, str] = {}
        """Quota to the one at the top of its tree."""
        self._quotas: dict[str, lines.Quota] = {}
        self._namespaces: dict[str, lines.Labelled] = {}
        self._workloads: dict[WorkloadRef, lines.Load] = {}
        """What is said of each, as of now."""
        self._going: dict[WorkloadRef, tuple[float, bool]] = {}
        """Those that seem to be gone: since when, oldest first, and whether something pended. What only moves is back
        in a moment."""
        self._told: set[WorkloadRef | str] | None = None
        """Workloads and namespaces that were told since ``telling``; ``None``: nobody is asked to."""
        self._folds: dict[WorkloadRef, _Fold] = {}
        self._lines: list[lines.Line] = []
        self._began = False
        self._renews = False
        """Notes were lost: the next file has to say what is there."""
        self._at_s = 0.0

    def take(self, notes: deque[Note], most: int) -> None:
        """Take some notes, the first ones, and what another thread may add meanwhile."""
        for _ in range(min(most, len(notes))):
            at_s, method, given = notes.popleft()
            if self._going:
                self._gone(at_s)
            if at_s > self._at_s:
                self._at_s = round(at_s, 3)
            method(*given)
        self._put_all()

    @property
    def failed(self) -> int:
        """Lines that could not be written."""
        return self._files.failed

    def flush(self) -> None:
        """Write what was taken, and begin the next file when that is due."""
        late = self._at_s - REWRITTEN_S
        for fold in list(self._folds.values()):
            if fold.told < fold.ask.n and fold.told_s <= late:
                self._tell(fold)
        self._put_all()
        self._files.flush(self._at_s)
        if self._began and self._files.ends:
            self._begin()

    def finish(self) -> None:
        """Nothing comes any more."""
        self._gone()
        self._end_all()
        self._put_all()
        self._files.flush(self._at_s)

    # Workloads.

    def counted(self, ref: WorkloadRef, position: Position, seen: Seen, ends: bool = False) -> None:
        """A workload costs something else. ``ends``: something that pended does so no more."""
        if self._told is not None:
            self._told.add(ref)
        if position.used is NOTHING and position.envelope is NOTHING:
            self._going[ref] = self._at_s, ends
            return
        self._going.pop(ref, None)
        if self._say(self._workloads, ref, self._load(ref, position, seen), anew=ends):
            self._lighter(position)

    def _gone(self, at_s: float = inf) -> None:
        """Those of before that moment will not be back. Each line has the time at which it went."""
        for ref, (since_s, ends) in list(self._going.items()):
            if since_s + MOVES_S >= at_s:
                return
            del self._going[ref]
            if self._workloads.pop(ref, None) is None and not ends:
                continue
            self._end_all()
            self._lines.append(lines.Gone(since_s, workload=lines.text_of(ref)))

    def _load(self, ref: WorkloadRef, position: Position, seen: Seen) -> lines.Load:
        most, replicas = position.envelope.replicas, seen.replicas
        pod, beside, covers = self._parts(ref, position, seen)
        return lines.Load(
            self._at_s,
            workload=lines.text_of(ref),
            replicas=replicas,
            most=most if most > max(position.used.replicas, replicas) else 0,
            pod=lines.costs_text(pod),
            beside=lines.costs_text(beside),
            covers=lines.costs_text(covers),
            may=lines.costs_text(seen.may or {}),
            labels=lines.label_text(seen.labels) if seen.labels else lines.NO_LABELS,
            version=seen.version,
            is_unknown=position.unknown,
        )

    def _parts(self, ref: WorkloadRef, position: Position, seen: Seen) -> tuple[Amounts, Amounts, Amounts]:
        """What each replica costs, what the workload costs beside all of them, and the part of that which the next
        replicas take up: claims that are there already, and pods that its ReplicaSets have beyond the count."""
        used, one, count = position.used, count_each(ref), seen.replicas
        if used.pod is not None and used.per_object is one and used.replicas == count:
            return used.pod, {}, {}
        pod = position.pod or seen.pod or {}
        rest = {key: amount - count * pod.get(key, 0) - one.get(key, 0) for key, amount in used.amounts.items()}
        beside = {key: amount for key, amount in rest.items() if amount > 0}
        is_more, claims = used.replicas > count, _CLAIMS if ref[:2] == STATEFUL_SETS else ()
        covers = {
            key: part
            for key, amount in beside.items()
            if key in pod and (is_more or key.endswith(claims)) and (part := amount - used.per_object.get(key, 0)) > 0
        }
        return pod, beside, covers

    # Questions.

    def asked(
        self, decision: Decision, to: int | None, asker: str, brought: Object | None = None, resizes: bool = False
    ) -> None:
        """A write was decided.

        Args:
            to: the count that it asked for.
            asker: ``NAMESPACE/NAME`` of the service account that asked; empty: somebody else, or not known.
        """
        ref = decision.ref
        if ref is None or decision.dry_run or isinstance(decision.todo, Lower):
            return
        if self._going:
            self._gone()
        if decision.verdict is Verdict.ALLOW:
            if ref in self._folds:
                self._end(self._folds[ref])
            self._lines.append(self._ask(ref, decision, to, asker, brought, resizes))
            return
        fold = self._folds.get(ref)
        what = (decision.verdict, decision.reason, to, decision.replicas_before, brought)
        if fold is not None and fold.what == what:
            fold.ask.n += 1
            fold.ask.last_s = self._at_s
            return
        if fold is not None:
            self._end(fold)
        ask = self._ask(ref, decision, to, asker, brought, resizes)
        short = frozenset(self._roots.get(row.quota, row.quota) for row in decision.evidence.shortages)
        self._folds[ref] = _Fold(ref, what, ask, short, told_s=self._at_s)
        self._lines.append(ask)

    def _ask(
        self, ref: WorkloadRef, decision: Decision, to: int | None, asker: str, brought: Object | None, resizes: bool
    ) -> lines.Ask:
        ask = lines.Ask(
            self._at_s,
            decision.id,
            lines.text_of(ref),
            decision.verdict,
            decision.reason,
            "resize" if resizes else decision.operation or "",
            decision.replicas_before,
            to,
            asker,
        )
        if brought is not None:
            ask.pod = lines.costs_text(brought.pod) if brought.pod is not None else None
            ask.labels = lines.label_text(brought.labels)
        if decision.reason not in PLAIN:
            ask.by, ask.would = _against(decision.evidence), decision.would
        return ask

    def _end(self, fold: _Fold) -> None:
        """Its next question begins anew."""
        del self._folds[fold.ref]
        if fold.told < fold.ask.n:
            self._tell(fold)

    def _end_all(self) -> None:
        for fold in list(self._folds.values()):
            self._end(fold)

    def _tell(self, fold: _Fold) -> None:
        """Write the line again, with how many there were. The last line of an id counts."""
        fold.told, fold.told_s = fold.ask.n, self._at_s
        self._lines.append(fold.ask)

    def _lighter(self, position: Position) -> None:
        """Something may have become free in these trees: what is asked now may be answered otherwise, and is no retry
        of what was asked before."""
        if self._folds:
            trees = {node.root for node in (*position.envelope_in, *position.used_in)}
            for fold in [one for one in self._folds.values() if not one.roots or not trees.isdisjoint(one.roots)]:
                self._end(fold)

    # Quotas, namespaces, and the whole.

    def limited(self, tree: QuotaTree) -> None:
        """Other quotas are in force."""
        self._roots = {node.quota.name: node.root for node in tree.nodes}
        self._end_all()
        for name in self._quotas.keys() - self._roots.keys():
            del self._quotas[name]
            self._lines.append(lines.Gone(self._at_s, quota=name))
        for node in tree.nodes:
            name = node.quota.name
            line = lines.Quota(self._at_s, name=name, spec=dumped(node.quota), is_illegible=bool(node.illegible))
            self._say(self._quotas, name, line)

    def labelled(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has these labels; ``None``: it is gone."""
        self._end_all()
        if self._told is not None:
            self._told.add(name)
        if labels is not None:
            self._say(self._namespaces, name, lines.Labelled(self._at_s, name=name, labels=dict(labels)))
            return
        self._namespaces.pop(name, None)
        self._lines.append(lines.Gone(self._at_s, namespace=name))

    def _say(self, kept: dict[_Key, _Kept], key: _Key, line: _Kept, *, anew: bool = False) -> bool:
        """Write a line if it says something else than the last one, or ``anew``. Returns whether it was."""
        before = kept.get(key)
        if before is not None:
            before.at_s = line.at_s
        if before == line and not anew:
            return False
        kept[key] = line
        self._lines.append(line)
        return True

    def telling(self, lost: int, since_s: float | None) -> None:
        """All namespaces and workloads are told now. One that is not told is gone.

        Args:
            lost: notes that were lost before.
            since_s: since when.
        """
        self._told = set()
        if lost:
            self._renews = True
            self._lines.append(lines.Gap(self._at_s, from_s=since_s or self._at_s, until_s=self._at_s, lost=lost))

    def all_told(self) -> None:
        """Those that were not told are gone. After a loss the next file says what is there."""
        told, self._told = self._told or set(), None
        for name in self._namespaces.keys() - told:
            self.labelled(name, None)
        for ref in self._workloads.keys() - told:
            self._going[ref] = self._at_s, False
        self._gone()
        if self._renews or not self._began:
            self._begin()

    def _begin(self) -> None:
        """Begin a file with the whole state."""
        self._gone()
        self._end_all()
        self._put_all()
        self._began, self._renews = True, False
        state: list[lines.Line] = [*self._quotas.values(), *self._namespaces.values(), *self._workloads.values()]
        for line in state:
            line.at_s = self._at_s
        head = lines.Start(self._at_s, schema=lines.SCHEMA, **self._head, state=len(state))
        self._files.begin(self._at_s, [lines.encode_lines([line]) for line in (head, *state)])
        lost, since_s = self._files.lost() if not self._files.ends else (0, 0.0)
        if lost:
            self._lines.append(lines.Gap(self._at_s, from_s=since_s, until_s=self._at_s, lost=lost))

    def _put_all(self) -> None:
        if self._lines and self._began:
            self._files.put(self._at_s, lines.encode_lines(self._lines), len(self._lines))
        self._lines.clear()


def _against(evidence: Evidence) -> tuple[str, ...]:
    """Quotas that refused, or would have, by their paths."""
    paths = [row.path for row in (*evidence.shortages, *evidence.audit)] + [row.path for row in evidence.unspecified]
    return tuple(sorted({"/".join(path) for path in paths}))

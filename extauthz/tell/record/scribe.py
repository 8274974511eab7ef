"""Makes lines of what a recorder notes: folds retries, leaves out what repeats, begins files with the whole state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias, cast

import orjson

from extauthz.core.kinds import STATEFUL_SETS
from extauthz.core.ledger.accounts import NOTHING, Position, Shared
from extauthz.core.ledger.pod_costs import count_each
from extauthz.core.model import Amounts, Decision, Evidence, Labels, Lower, Verdict, WorkloadRef
from extauthz.core.objects.fields import labels_dict
from extauthz.core.quota.spec import amounts as written
from extauthz.core.quota.spec import dumped
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.files import Files

SCHEMA: Final = 1

REWRITTEN_S: Final = 60.0
"""How late a line of retries may say how many there were."""


_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
"""Keys that count claims end so."""

MOVES_S: Final = 0.05
"""How soon what only moves is back. It is counted out and in by one call."""


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


class Asked(NamedTuple):
    """A decision."""

    decision: Decision
    to: int | None
    asker: str = ""
    """``NAMESPACE/NAME`` of the service account that asked; empty: somebody else, or not known."""
    object: Object | None = None
    resizes: bool = False


class Noted(NamedTuple):
    """What the scribe is told, in its turn: a method of its, and what that is given beside the time."""

    at_s: float
    """Seconds since 1970."""
    method: Callable[..., None]
    given: tuple[object, ...] = ()


Count: TypeAlias = tuple[float, Decision, int, str]
"""A decision about a count alone: when, which it asked for, and who asked. Nearly all notes are one, so it is the least
that can be made."""

PLAIN: Final = frozenset({"fits", "no-growth"})
"""Reasons of grants that nobody has anything against, of workloads that are known."""


@dataclass(slots=True)
class _Fold:
    """Equal refused questions of one workload."""

    ref: WorkloadRef
    what: tuple[object, ...]
    line: bytes
    roots: tuple[str, ...]
    n: int = 1
    last_s: float = 0.0
    told: int = 1
    """How many of them are in the file."""
    told_s: float = 0.0


class Scribe:
    """One gate's lines.

    Args:
        files: where they go.
        head: what each file begins with, beside the time: gate, version, run, settings that decide.
    """

    def __init__(self, files: Files, head: Mapping[str, Any]) -> None:
        self._files = files
        self._head = head
        self._quotas: dict[str, bytes] = {}
        self._roots: dict[str, str] = {}
        """Quota to the one at the top of its tree."""
        self._namespaces: dict[str, bytes] = {}
        self._workloads: dict[WorkloadRef, bytes] = {}
        """What is said of each, as of now."""
        self._names: dict[WorkloadRef, str] = {}
        """In JSON."""
        self._going: dict[WorkloadRef, tuple[float, bool]] = {}
        """Those that seem to be gone: since when, oldest first, and whether something pended. What only moves is back
        in a moment."""
        self._told: set[WorkloadRef | str] | None = None
        """Workloads and namespaces that were told since ``telling``; ``None``: nobody is asked to."""
        self._folds: dict[WorkloadRef, _Fold] = {}
        self._lines: list[str] = []
        """Those of questions, to be encoded together."""
        self._began = False
        self._at_s = 0.0
        self._begins_s, self._begins = -1.0, ""
        """How the line of a question begins, and since when."""
        self._lost = 0
        self._lost_since_s: float | None = None
        self.failed = 0
        """Lines that could not be written."""

    def take(self, notes: deque[Noted | Count], most: int) -> None:
        """Take some notes, the first ones, and what another thread may add meanwhile."""
        lines, names = self._lines, self._names
        for _ in range(min(most, len(notes))):
            noted = notes.popleft()
            at_s = noted[0]
            if self._going:
                self._gone(at_s if type(noted) is not tuple else inf)
            if at_s > self._at_s:
                self._at_s = at_s
            if type(noted) is not tuple:
                told = cast("Noted", noted)
                told.method(at_s, *told.given)
                continue
            _, decision, to, asker = cast("Count", noted)
            tail, ref, before = _PLAIN_TAILS.get(decision.reason), decision.ref, decision.replicas_before
            if tail is None or ref is None or decision.dry_run or (self._folds and ref in self._folds):
                self.asked(at_s, Asked(decision, to, asker))
                continue
            # Nearly all of them: the shortest way to a line.
            if self._at_s >= self._begins_s + 0.001:  # of a busy gate, many begin alike
                self._begins_s, self._begins = self._at_s, f'{{"k":"ask","t":{self._at_s:.3f},"id":"'
            from_ = f'"from":{before},' if before is not None else ""
            by = f',"asker":"{asker}"' if asker else ""
            lines.append(
                f'{self._begins}{decision.id}","workload":{names.get(ref) or self._name(ref)},'
                f'"operation":"{decision.operation or ""}",{from_}"to":{to}{by}{tail}'
            )
        if lines:
            self._put_all()

    def _put_all(self) -> None:
        lines = self._lines
        if self._began:
            self._files.put(self._at_s, "".join(lines).encode(), len(lines))
        lines.clear()

    def flush(self) -> None:
        """Write what was taken, and begin the next file when that is due."""
        late = self._at_s - REWRITTEN_S
        for fold in list(self._folds.values()):
            if fold.told < fold.n and fold.told_s <= late:
                self._tell(fold)
        self._files.flush(self._at_s)
        if self._began and self._files.ends:
            self._begin()
        self._take_lost()

    def finish(self) -> None:
        """Nothing comes any more."""
        self._gone()
        self._end_all()
        self._files.flush(self._at_s)

    def _take_lost(self) -> None:
        lost, since_s = self._files.lost()
        self.failed += lost
        self._lost += lost
        if lost and self._lost_since_s is None:
            self._lost_since_s = since_s

    # Workloads.

    def counted(self, at_s: float, ref: WorkloadRef, position: Position, seen: Seen, ends: bool = False) -> None:
        """A workload costs something else. ``ends``: something that pended does so no more."""
        if self._told is not None:
            self._told.add(ref)
        if position.used is NOTHING and position.envelope is NOTHING:
            self._going[ref] = at_s, ends
            return
        self._going.pop(ref, None)
        said = self._said(ref, position, seen)
        if said == self._workloads.get(ref) and not ends:
            return
        self._workloads[ref] = said
        self._lighter(position)
        self._put(b'{"k":"load","t":%.3f,%s}\n' % (self._at_s, said))

    def _gone(self, at_s: float = inf) -> None:
        """Those of before that moment will not be back. Each line has the time at which it went."""
        oldest_s, _ = next(iter(self._going.values()), (inf, False))
        if oldest_s + MOVES_S >= at_s:
            return  # nearly always: this is asked before each note
        for ref, (since_s, ends) in list(self._going.items()):
            if since_s + MOVES_S >= at_s:
                return
            del self._going[ref]
            if self._workloads.pop(ref, None) is None and not ends:
                continue
            for fold in list(self._folds.values()):
                self._end(fold)
            self._put(b'{"k":"gone","t":%.3f,"workload":%s}\n' % (since_s, self._name(ref).encode()))
            self._names.pop(ref, None)

    def _said(self, ref: WorkloadRef, position: Position, seen: Seen) -> bytes:
        used, most, replicas = position.used, position.envelope.replicas, seen.replicas
        pod, beside, covers = self._parts(ref, position, seen)
        parts = [f'"workload":{self._name(ref)},"replicas":{replicas},"pod":{_amounts(pod)}']
        if beside:
            parts.append(f'"beside":{_amounts(beside)}')
        if covers:
            parts.append(f'"covers":{_amounts(covers)}')
        if seen.may:
            parts.append(f'"may":{_amounts(seen.may)}')
        if most > max(used.replicas, replicas):
            parts.append(f'"most":{most}')
        if seen.labels:
            parts.append(f'"labels":{_labels(seen.labels)}')
        if seen.version:
            parts.append(f'"version":{_text(seen.version)}')
        if position.unknown:
            parts.append('"unknown":true')
        return ",".join(parts).encode()

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

    def _name(self, ref: WorkloadRef) -> str:
        name = self._names.get(ref)
        if name is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            name = self._names[ref] = _text(f"{ref.group_resource}/{ref.namespace}/{ref.name}")
        return name

    # Questions.

    def asked(self, at_s: float, noted: Asked) -> None:
        """A write was decided."""
        decision = noted.decision
        ref = decision.ref
        if ref is None or decision.dry_run or isinstance(decision.todo, Lower):
            return
        if self._going:
            self._gone()
        if decision.verdict is Verdict.ALLOW:
            if ref in self._folds:
                self._end(self._folds[ref])
            self._put(self._question(noted, ref))
            return
        what = (decision.verdict, decision.reason, noted.to, decision.replicas_before, noted.object)
        fold = self._folds.get(ref)
        if fold is not None and fold.what == what:
            fold.n += 1
            fold.last_s = self._at_s
            return
        if fold is not None:
            self._end(fold)
        line = self._question(noted, ref)
        short = {self._roots.get(row.quota, row.quota): None for row in decision.evidence.shortages}
        self._folds[ref] = _Fold(ref, what, line, tuple(short), told_s=self._at_s)
        self._put(line)

    def _question(self, noted: Asked, ref: WorkloadRef) -> bytes:
        decision = noted.decision
        operation = "resize" if noted.resizes else decision.operation
        text = f'{{"k":"ask","t":{self._at_s:.3f},"id":"{decision.id}","workload":{self._name(ref)}'
        if operation is not None:
            text += f',"operation":"{operation}"'
        if decision.replicas_before is not None:
            text += f',"from":{decision.replicas_before}'
        if noted.to is not None:
            text += f',"to":{noted.to}'
        if noted.asker:
            text += f',"asker":"{noted.asker}"'
        if noted.object is not None:
            if noted.object.pod is not None:
                text += f',"pod":{_amounts(noted.object.pod)}'
            text += f',"labels":{_labels(noted.object.labels)}'
        by = _against(decision.evidence)
        if by:
            text += f',"by":{orjson.dumps(by).decode()}'
        return (text + _tail(decision.verdict, decision.reason, decision.would)).encode()

    def _end(self, fold: _Fold) -> None:
        """Its next question begins anew."""
        del self._folds[fold.ref]
        if fold.told < fold.n:
            self._tell(fold)

    def _tell(self, fold: _Fold) -> None:
        """Write the line again, with how many there were. The last line of an id counts."""
        fold.told, fold.told_s = fold.n, self._at_s
        self._put(b'%s,"n":%d,"last":%.3f}\n' % (fold.line[:-2], fold.n, fold.last_s))

    def _lighter(self, position: Position) -> None:
        """Something may have become free in these trees: what is asked now may be answered otherwise, and is no retry
        of what was asked before."""
        if self._folds:
            trees = {node.root for node in (*position.envelope_in, *position.used_in)}
            for fold in [one for one in self._folds.values() if not one.roots or not trees.isdisjoint(one.roots)]:
                self._end(fold)

    # Quotas, namespaces, and the whole.

    def limited(self, at_s: float, tree: QuotaTree) -> None:
        """Other quotas are in force."""
        self._roots = {node.quota.name: node.root for node in tree.nodes}
        self._end_all()
        after = {node.quota.name: orjson.dumps(dumped(node.quota)) for node in tree.nodes}
        illegible = {node.quota.name for node in tree.nodes if node.illegible}
        for name in self._quotas.keys() - after.keys():
            del self._quotas[name]
            self._put(b'{"k":"gone","t":%.3f,"quota":%s}\n' % (self._at_s, _text(name).encode()))
        for name, spec in after.items():
            said = b'"quota":%s,"spec":%s' % (_text(name).encode(), spec)
            said += b',"illegible":true' if name in illegible else b""
            if self._quotas.get(name) != said:
                self._quotas[name] = said
                self._put(b'{"k":"quota","t":%.3f,%s}\n' % (self._at_s, said))

    def labelled(self, at_s: float, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has these labels; ``None``: it is gone."""
        self._end_all()
        if self._told is not None:
            self._told.add(name)
        if labels is None:
            self._namespaces.pop(name, None)
            self._put(b'{"k":"gone","t":%.3f,"ns":%s}\n' % (self._at_s, _text(name).encode()))
            return
        said = b'"ns":%s,"labels":%s' % (_text(name).encode(), orjson.dumps(dict(labels)))
        if self._namespaces.get(name) != said:
            self._namespaces[name] = said
            self._put(b'{"k":"ns","t":%.3f,%s}\n' % (self._at_s, said))

    def _end_all(self) -> None:
        for fold in list(self._folds.values()):
            self._end(fold)

    def telling(self, at_s: float) -> None:
        """All namespaces and workloads are told now. One that is not told is gone."""
        self._told = set()

    def all_told(self, at_s: float, lost: int, since_s: float | None) -> None:
        """Those that were not told are gone. After a loss the next file says what is there.

        Args:
            lost: notes that were lost before.
            since_s: since when.
        """
        told, self._told = self._told or set(), None
        for name in self._namespaces.keys() - told:
            self.labelled(at_s, name, None)
        for ref in self._workloads.keys() - told:
            self._going[ref] = self._at_s, False
        self._gone()
        if lost:
            self._lost += lost
            self._lost_since_s = min(since_s or self._at_s, self._lost_since_s or self._at_s)
        if lost or not self._began:
            self._begin()

    def _begin(self) -> None:
        """Begin a file with the whole state."""
        self._gone()
        self._end_all()
        self._began = True
        rows = (("quota", self._quotas), ("ns", self._namespaces), ("load", self._workloads))
        state = [
            b'{"k":"%s","t":%.3f,%s}\n' % (kind.encode(), self._at_s, said)
            for kind, each in rows
            for said in each.values()
        ]
        head = {"k": "start", "t": round(self._at_s, 3), "schema": SCHEMA, **self._head, "state": len(state)}
        self._files.begin(self._at_s, [orjson.dumps(head) + b"\n", *state])
        self._take_lost()
        if self._lost and not self._files.ends:
            lost, since_s = self._lost, self._lost_since_s or self._at_s
            self._lost, self._lost_since_s = 0, None
            self._put(
                b'{"k":"gap","t":%.3f,"from":%.3f,"to":%.3f,"lost":%d}\n' % (self._at_s, since_s, self._at_s, lost)
            )

    def _put(self, line: bytes) -> None:
        if self._lines:
            self._put_all()  # they come first
        if self._began:
            self._files.put(self._at_s, line, 1)


_TAILS: dict[tuple[Verdict, str, Verdict | None], str] = {}


def _tail(verdict: Verdict, reason: str, would: Verdict | None) -> str:
    """The end of the line of a question. Reasons are few."""
    told = f',"would":"{would.value}"' if would is not None else ""
    found = _TAILS[verdict, reason, would] = f',"verdict":"{verdict.value}","reason":"{reason}"{told}}}\n'
    return found


def _against(evidence: Evidence) -> list[str]:
    """Quotas that refused, or would have, by their paths."""
    paths = [row.path for row in (*evidence.shortages, *evidence.audit)] + [row.path for row in evidence.unspecified]
    return sorted({"/".join(path) for path in paths})


_PLAIN_TAILS: Final = {reason: _tail(Verdict.ALLOW, reason, None) for reason in PLAIN}


_TEXTS: dict[int, tuple[Amounts, str]] = {}
_MOST_TEXTS: Final = 65_536
_MOST_NAMES: Final = 1 << 20
"""Also strangers ask, about what is not there."""


def _amounts(given: Amounts) -> str:
    """Amounts as Kubernetes writes them, in JSON. What only the gate itself counts has a space in its key."""
    known = _TEXTS.get(id(given)) if isinstance(given, Shared) else None
    if known is not None and known[0] is given:
        return known[1]
    text = orjson.dumps(written({key: one for key, one in given.items() if " " not in key})).decode()
    if isinstance(given, Shared):
        if len(_TEXTS) >= _MOST_TEXTS:
            _TEXTS.clear()
        _TEXTS[id(given)] = given, text
    return text


def _labels(labels: Labels) -> str:
    return orjson.dumps(labels_dict(labels)).decode()


def _text(value: str) -> str:
    return orjson.dumps(value).decode()

"""``extauthz simulate``: seeded worlds in which everything goes wrong that may, and the rules are checked."""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from extauthz.cli import exits
from extauthz.service.setting_types import SettingsError
from extauthz.simulate import search
from extauthz.simulate.plan import FAULTS
from extauthz.simulate.running import Result
from extauthz.simulate.search import Wanted


def run(arguments: argparse.Namespace) -> int:
    """Run the worlds; 1 at the first that breaks a rule."""
    if arguments.what == "sharing":
        from extauthz.cli import simulate_sharing  # not needed for the other worlds

        return simulate_sharing.run(arguments)
    try:
        wanted = Wanted(arguments.steps, _faults(arguments.faults), arguments.ledger, arguments.gates)
        wanted = wanted._replace(only=_only(arguments.only), entrances=arguments.entrances)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    if arguments.trace:
        return _report(next(search.search(wanted, [arguments.seed], 1)), arguments.words)
    began_s = time.monotonic()
    ran: Counter[str] = Counter()
    for result in search.search(wanted, _seeds(arguments, began_s), arguments.jobs):
        ran.update(seeds=1, steps=len(result.plan.steps), answers=result.answers, virtual_s=round(result.virtual_s))
        if result.violation is not None:
            print(f"seed {result.plan.seed} breaks a rule: {result.violation}\nmaking it shorter …", flush=True)
            return _report(search.shortest(wanted, result.plan.seed), arguments.words)
    took_s = time.monotonic() - began_s
    worlds = "1 world" if ran["seeds"] == 1 else f"{ran['seeds']} worlds"
    print(
        f"{worlds}, {ran['steps']} steps, {ran['answers']} answers, {ran['virtual_s']} s of their time "
        f"in {took_s:.0f} s: no rule was broken"
    )
    return 0


def _report(result: Result, words: Sequence[str]) -> int:
    print("\n".join(result.trace))
    plan = result.plan
    print(
        f"\nseed {plan.seed}: {plan.gates} gates, ledger {plan.ledger}, entrances {plan.entrances}, "
        f"{len(plan.steps)} steps"
    )
    for one in plan.quotas:
        print(f"  quota {' '.join(f'{key}={value}' for key, value in one.items())}")
    if result.violation is None:
        print("no rule was broken")
        return 0
    only = ",".join(str(step.number) for step in plan.steps)
    again = ["extauthz", "simulate", *_repeated(words), "--seed", str(plan.seed), "--only", only, "--trace"]
    print(f"broken: {result.violation}\nagain: {shlex.join(again)}")
    return 1


def _repeated(words: Sequence[str]) -> Iterator[str]:
    """The flags that draw the world."""
    given = iter(words)
    for word in given:
        if word.split("=", 1)[0] in ("--steps", "--faults", "--ledger", "--gates", "--entrances"):
            yield word
            if "=" not in word:
                yield next(given)


def _seeds(arguments: argparse.Namespace, began_s: float) -> Iterator[int]:
    if arguments.minutes is None:
        yield from range(arguments.seed, arguments.seed + arguments.seeds)
        return
    for seed in count(arguments.seed):
        if time.monotonic() - began_s > arguments.minutes * 60:
            return
        yield seed


def _faults(text: str) -> frozenset[str]:
    if text in ("all", "none"):
        return frozenset(FAULTS) if text == "all" else frozenset()
    chosen = frozenset(text.split(","))
    if unknown := sorted(chosen - FAULTS.keys()):
        raise SettingsError(f"--faults: there is no {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return chosen


def _only(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(one) for one in text.split(",") if one)
    except ValueError:
        raise SettingsError(f"--only: {text!r} is not a list of numbers, as in 3,7,12") from None

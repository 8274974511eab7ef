"""``make simulate``: seeded worlds in which everything goes wrong that may, and the rules are checked."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from extauthz.cli import Parser, exits
from extauthz.serve.service.setting_types import SettingsError
from tests.worlds import search
from tests.worlds.plan import ENTRANCES, FAULTS
from tests.worlds.running import Result
from tests.worlds.search import Wanted

ABOUT = """\
Runs the gate's own code in simulated worlds: several gates, an API server and autoscalers on a virtual clock, with
faults. What happens follows from the seed alone. The rules of the guarantee are checked after every step; of a seed
that breaks one the shortest run that still does is printed."""

EPILOG = """\
examples:
  python -m tests.worlds --seeds 1000
  python -m tests.worlds --minutes 60 --steps 60
  python -m tests.worlds --seed 17 --trace
  python -m tests.worlds --seed 17 --only 3,7,12 --trace

faults:
{faults}

exit codes: 0 no rule was broken, 1 one was, 64 wrong usage"""


def _parser() -> Parser:
    faults = "\n".join(f"  {name:10} {what}" for name, what in FAULTS.items())
    parser = Parser(prog="python -m tests.worlds", description=ABOUT, epilog=EPILOG.format(faults=faults))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="The first, or the only one. Default: 0.")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--seeds", type=int, default=1, metavar="N", help="How many from there on. Default: 1.")
    many.add_argument("--minutes", type=float, metavar="N", help="Go on from seed to seed for so long.")
    parser.add_argument(
        "--steps", type=int, default=30, metavar="N", help="Things that happen in a world. Default: 30."
    )
    parser.add_argument("--faults", default="all", metavar="A,B|all|none", help="What may go wrong. Default: all.")
    parser.add_argument("--ledger", choices=("memory", "store", "kubernetes"), default="", help="Default: drawn.")
    parser.add_argument("--gates", type=int, default=0, metavar="N", help="Of a shared ledger. Default: drawn, 1 to 3.")
    parser.add_argument("--entrances", choices=ENTRANCES, default="", help="Who asks the gates. Default: drawn.")
    parser.add_argument("--only", metavar="N,N", help="Leave out all steps but these.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="Worlds at a time.")
    parser.add_argument(
        "--trace", action="store_true", help="Print what happens in the world of --seed, and how it ends."
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worlds; 1 at the first that breaks a rule."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(words)
    try:
        wanted = Wanted(arguments.steps, _faults(arguments.faults), arguments.ledger, arguments.gates)
        wanted = wanted._replace(only=_only(arguments.only), entrances=arguments.entrances)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    if arguments.trace:
        return _report(next(search.search(wanted, [arguments.seed], 1)), words)
    began_s = time.monotonic()
    ran: Counter[str] = Counter()
    for result in search.search(wanted, _seeds(arguments, began_s), arguments.jobs):
        ran.update(seeds=1, steps=len(result.plan.steps), answers=result.answers, virtual_s=round(result.virtual_s))
        if result.violation is not None:
            print(f"seed {result.plan.seed} breaks a rule: {result.violation}\nmaking it shorter …", flush=True)
            return _report(search.shortest(wanted, result.plan.seed), words)
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
    again = ["python", "-m", "tests.worlds", *_repeated(words), "--seed", str(plan.seed), "--only", only, "--trace"]
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


if __name__ == "__main__":
    sys.exit(main())

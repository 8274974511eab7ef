"""Flags of ``extauthz simulate``."""

from __future__ import annotations

import argparse
import os

from extauthz.simulate.plan import ENTRANCES, FAULTS

DESCRIPTION = """\
Runs the gate's own code in simulated worlds: several gates, an API server and autoscalers on a virtual clock, with
faults. What happens follows from the seed alone. The rules of the guarantee are checked after every step; of a seed
that breaks one the shortest run that still does is printed."""


EPILOG = """\
examples:
  extauthz simulate --seeds 1000
  extauthz simulate --minutes 60 --steps 60
  extauthz simulate --seed 17 --trace
  extauthz simulate --seed 17 --only 3,7,12 --trace
  extauthz simulate sharing --seeds 30 --svg sharing.svg

sharing: autoscalers in one full house, first come and with turns; of the flags only --seed, --seeds and --svg

faults:
{faults}

exit codes: 0 no rule was broken, 1 one was (of sharing: somebody waits for more than two of its own intervals beyond
its turn, or Jain's index is below 0.95), 64 wrong usage"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    faults = "\n".join(f"  {name:10} {what}" for name, what in FAULTS.items())
    parser = commands.add_parser(
        "simulate",
        description=DESCRIPTION,
        epilog=EPILOG.format(faults=faults),
    )
    parser.add_argument(
        "what", nargs="?", choices=("sharing",), help="Worlds of their own. Default: those with faults."
    )
    parser.add_argument("--svg", default="", metavar="FILE", help="Of sharing: write the chart there, too.")
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

"""Three gates, fifty autoscalers, everything fails in turn: does any quota ever get exceeded? ``make chaos``.

Exits with 1 where it does, or where anything is still reserved, or counted wrong, once all is at rest.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

from pydantic.warnings import PydanticDeprecatedSince212

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from tests.chaos import planted
    from tests.chaos.run import ENTRANCES, run
from extauthz.demo.gate import SERVE
from tests.controlplane import parts
from tests.controlplane.marker import ALWAYS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0, help="How long scalers and faults are at it.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="What happens in which order.")
    parser.add_argument("--plant", choices=sorted(planted.PLANTS), help="A defect of the gates, which must be found.")
    parser.add_argument("--entrances", choices=ENTRANCES, default="both", help="Who asks the gates. Default: both.")
    parser.add_argument("--calm", action="store_true", help="Without faults.")
    parser.add_argument("--keep", action="store_true", help="Leave the logs behind.")
    arguments = parser.parse_args()
    if missing := parts.missing(ALWAYS):
        print("\n".join(missing))
        return 2
    folder = Path(tempfile.mkdtemp(prefix="extauthz-chaos-"))
    start_s = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start_s:6.1f} s  {what}", flush=True)

    say(f"seed {arguments.seed}, logs in {folder}")
    serve = planted.command(arguments.plant) if arguments.plant else SERVE
    report = run(
        folder, arguments.seconds, arguments.seed, say, serve, calm=arguments.calm, entrances=arguments.entrances
    )
    print(f"\n{report.text()}")
    if report.failures or arguments.keep:
        print(f"\nlogs: {folder}")
    else:
        shutil.rmtree(folder)
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())

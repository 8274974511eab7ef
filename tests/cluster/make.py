"""``make cluster`` and ``make cluster-down``: ``python -m tests.cluster.make [parts | up | down]``."""

from __future__ import annotations

import subprocess
import sys

from extauthz.demo.processes import StartError
from tests.cluster import cluster, lacking
from tests.cluster.place import default
from tests.compose import prepare
from tests.controlplane import build, netns


def main(what: str) -> int:
    """1 if it cannot be done, with the reason in a line."""
    try:
        return {"parts": parts, "up": up, "down": down}[what]()
    except (netns.CannotInstallError, subprocess.SubprocessError, StartError, AssertionError) as error:
        print(f"make cluster: {error}", file=sys.stderr)
        return 1


def parts() -> int:
    """Build or install what is missing."""
    netns.install(lacking.PACKAGES)
    return build.main(["--only", *lacking.NEEDED]) or prepare.main(alone=True)


def up() -> int:
    """Leave one running, and say how to use it."""
    place = default()
    if reason := lacking.sentence():
        print(f"make cluster: {reason}", file=sys.stderr)
        return 1
    if cluster.running(place) is None:
        cluster.up(place)
    print(f"a cluster of one node runs, with DNS and metrics; its logs are in {place.logs}")
    print(f"export KUBECONFIG={place.kubeconfig}")
    print("make cluster-down ends it")
    return 0


def down() -> int:
    """Take it away."""
    cluster.down(default())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

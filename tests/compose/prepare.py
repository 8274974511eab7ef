"""What the tests of docker-compose.yml need: ``make containers``. What the gate's image alone needs: ``make image``.

An engine (Docker, or podman: installed where this is root's Debian), Docker's compose command (built with Go where
there is none), the official images (stand-ins where they cannot be pulled: ``standins.py``), and our own two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.compose import engine, standins
from tests.controlplane import build

PODMAN = ["podman", "runc", "netavark", "aardvark-dns", "iptables"]
OWN = {"extauthz-stand-ins": "stand-ins", "extauthz": "gate"}
"""Image → target of our Dockerfile."""


def main(*, alone: bool) -> int:
    """Set up what is missing, and say so. 1 if that cannot be done.

    Args:
        alone: the gate's image, and nothing else.
    """
    progress = build.Progress()
    try:
        _engine(progress)
        if alone:
            standins.main(standins.bases("gate"))
            own_images("extauthz")
            return 0
        if not engine.compose():
            _compose(progress)
        progress.say(f"compose: {' '.join(engine.compose())}")
        standins.main(standins.wanted())
        own_images(*OWN)
    except (engine.MissingError, build.BuildError, subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"make {'image' if alone else 'containers'}: {error}", file=sys.stderr)
        return 1
    progress.say("all is here")
    return 0


def own_images(*images: str) -> None:
    """Build them of what is here now; what has not changed is not built again."""
    for image in images:
        engine.build(image, standins.ROOT, "--target", OWN[image])


def _compose(progress: build.Progress) -> None:
    go = build._go(progress)
    with build._alone(progress):
        build._build(go, engine.COMPOSE, progress)


def _engine(progress: build.Progress) -> None:
    try:
        engine.found()
    except engine.MissingError:
        if os.geteuid() or not shutil.which("apt-get"):
            raise
        progress.say(f"neither a Docker daemon nor podman is here: apt-get install {' '.join(PODMAN)}")
        subprocess.run(["apt-get", "update", "--quiet"], check=True)
        quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends"]
        subprocess.run([*install, *PODMAN], check=True, env=quietly)
    progress.say(f"engine: {' '.join(engine.found().command)}")


if __name__ == "__main__":
    sys.exit(main(alone=sys.argv[1:] == ["image"]))

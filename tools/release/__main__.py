"""``make release``: what a release consists of, in ``dist/``, of the sources as they are here.

sdist and wheel, the chart, a list of the packages that the gate is made of (CycloneDX), the image where a container
engine is, and the checksums of all. The version is the one of pyproject.toml.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from tests.compose import engine
from tests.controlplane.parts import find

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
WITHIN_S = 1800


def version() -> str:
    """Of this release."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def main() -> int:
    """Build all of it anew."""
    arguments = _parser().parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    wheel = packages(DIST)
    chart(DIST)
    bill_of_materials(wheel, DIST / f"extauthz-{version()}.cdx.json")
    if arguments.image:
        image(DIST)
    checksums(DIST)
    print((DIST / "SHA256SUMS").read_text(), end="")
    return 0


def packages(folder: Path) -> Path:
    """sdist, and the wheel that is built of it; the path of the wheel."""
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    return folder / f"extauthz-{version()}-py3-none-any.whl"


def chart(folder: Path) -> None:
    """The chart, which `helm install` takes as a file."""
    _run(str(find("helm")), "package", str(ROOT / "charts/extauthz"), "--destination", str(folder))


def bill_of_materials(wheel: Path, target: Path) -> None:
    """What the wheel brings when it is installed as in the image, in CycloneDX."""
    with tempfile.TemporaryDirectory(prefix="extauthz-release-") as name:
        python = install(Path(name), f"{wheel}[cel]")
        words = ["environment", "--output-reproducible", "--output-format=JSON", f"--output-file={target}"]
        _run(sys.executable, "-m", "cyclonedx_py", *words, f"--pyproject={ROOT / 'pyproject.toml'}", str(python))


def install(folder: Path, requirement: str) -> Path:
    """Install into a new, empty environment, in the versions of constraints.txt; its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pinned = f"--constraint={ROOT / 'constraints.txt'}"
    # From there: pip takes what lies in its own folder, or on PYTHONPATH, for installed.
    _run(sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", pinned, requirement, folder=folder)
    return python


def image(folder: Path) -> None:
    """The image of this machine's architecture, as `docker load` takes it."""
    name = f"extauthz:{version()}"
    engine.build(name, ROOT, "--target", "gate")
    with tempfile.TemporaryDirectory(prefix="extauthz-release-") as where:
        saved = Path(where) / "image.tar"
        engine.found().run("save", "--output", str(saved), engine.official(name), within_s=WITHIN_S)
        inspect = ("image", "inspect", "--format={{.Architecture}}", engine.official(name))
        target = folder / f"extauthz-{version()}-{engine.found().run(*inspect).stdout.strip()}.image.tar.gz"
        with saved.open("rb") as source, gzip.open(target, "wb", 6) as packed:
            shutil.copyfileobj(source, packed)


def checksums(folder: Path) -> None:
    """As `sha256sum --check` reads them."""
    files = sorted(file for file in folder.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    here = not engine.missing(with_compose=False)
    image = argparse.BooleanOptionalAction
    parser.add_argument("--image", action=image, default=here, help="Default: where a container engine is.")
    return parser


def _run(*command: str, folder: Path = ROOT) -> None:
    environment = {key: value for key, value in os.environ.items() if folder == ROOT or key != "PYTHONPATH"}
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=WITHIN_S)


if __name__ == "__main__":
    sys.exit(main())

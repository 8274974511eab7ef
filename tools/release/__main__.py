"""``make release``: what a release consists of, in ``dist/``, of the sources as they are here.

sdist and wheel, the chart with Artifact Hub's annotations, kubectl's plugin and krew's manifest of it, the command as
one file, a list of the packages that the gate is made of (CycloneDX), the image where a container engine is, and the
checksums of all. The version is the one of pyproject.toml.

The variable RELEASE_URL says where the files will be, for krew's manifest; REGISTRY where the image will be, for
Artifact Hub, and ARTIFACTHUB_ID which repository it is there.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

import yaml

from tests.compose import engine
from tests.controlplane.parts import find
from tools.release import metadata

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
WITHIN_S = 1800
NOWHERE = "https://release.invalid/releases/download"
"""Where the files are as long as RELEASE_URL does not say it."""


def version() -> str:
    """Of this release."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def main() -> int:
    """Build all of it anew."""
    arguments = _parser().parse_args()
    folder: Path = arguments.into.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wheel = packages(folder)
    chart(folder)
    plugin(wheel, folder)
    command(wheel, folder)
    bill_of_materials(wheel, folder / f"extauthz-{version()}.cdx.json")
    if arguments.image:
        image(folder)
        offline(folder)
    checksums(folder)
    print((folder / "SHA256SUMS").read_text(), end="")
    return 0


def packages(folder: Path) -> Path:
    """sdist, and the wheel that is built of it; the path of the wheel."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder / f"extauthz-{version()}-py3-none-any.whl"


def chart(folder: Path) -> None:
    """The chart, which `helm install` takes as a file, with Artifact Hub's annotations; and artifacthub-repo.yml."""
    registry = os.environ.get("REGISTRY", "")
    with tempfile.TemporaryDirectory(prefix="extauthz-release-") as name:
        copy = Path(shutil.copytree(ROOT / "charts/extauthz", Path(name) / "extauthz"))
        told = metadata.annotated(
            yaml.safe_load((copy / "Chart.yaml").read_text()),
            changes=metadata.changes((ROOT / "CHANGELOG.md").read_text(), version()),
            definitions=[yaml.safe_load(file.read_text()) for file in sorted((copy / "definitions").glob("*.yaml"))],
            image=f"{registry}/extauthz:{version()}" if registry else "",
        )
        (copy / "Chart.yaml").write_text(yaml.safe_dump(told, sort_keys=False))
        _run(str(find("helm")), "package", str(copy), "--destination", str(folder))
    (folder / "artifacthub-repo.yml").write_text(metadata.repository(os.environ.get("ARTIFACTHUB_ID", "")))


def plugin(wheel: Path, folder: Path) -> None:
    """kubectl's plugin as an archive, and krew's manifest of it."""
    archive = folder / f"kubectl-wsq-{version()}.tar.gz"
    metadata.plugin_archive(wheel, archive)
    url = f"{os.environ.get('RELEASE_URL') or f'{NOWHERE}/v{version()}'}/{archive.name}"
    (folder / f"{metadata.PLUGIN}.yaml").write_text(metadata.krew_manifest(version(), url, sha256(archive)))


def command(wheel: Path, folder: Path) -> Path:
    """The command with all its packages in one file, for Pythons and systems such as this one's; its path."""
    system = f"{sys.platform}-{platform.machine()}-{sys.implementation.cache_tag}"
    target = folder / f"extauthz-{version()}-{system}.pyz"
    words = ["--console-script=extauthz", "--compressed", "--reproducible", f"--output-file={target}"]
    # From there: shiv takes what lies in its own folder, or on PYTHONPATH, for installed.
    pinned = f"--constraint={ROOT / 'constraints.txt'}"
    _run(sys.executable, "-m", "shiv", *words, str(wheel), "--quiet", pinned, folder=folder)
    return target


def bill_of_materials(wheel: Path, target: Path) -> None:
    """What the wheel brings when it is installed as in the image, in CycloneDX."""
    with tempfile.TemporaryDirectory(prefix="extauthz-release-") as name:
        python = install(Path(name), str(wheel))
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


def offline(folder: Path) -> None:
    """What installs from these files alone: the script, and the list of images that it pushes."""
    shutil.copy(ROOT / "tools/release/install-offline.sh", folder)
    (folder / "images.txt").write_text(f"{engine.official(f'extauthz:{version()}')}\n")


def sha256(file: Path) -> str:
    """In hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def checksums(folder: Path) -> None:
    """As `sha256sum --check` reads them."""
    files = sorted(file for file in folder.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{sha256(file)}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    here = not engine.missing(with_compose=False)
    image = argparse.BooleanOptionalAction
    parser.add_argument("--into", type=Path, default=DIST, metavar="FOLDER", help="Emptied first. Default: dist/.")
    parser.add_argument("--image", action=image, default=here, help="Default: where a container engine is.")
    return parser


def _run(*command: str, folder: Path = ROOT) -> None:
    environment = {key: value for key, value in os.environ.items() if folder == ROOT or key != "PYTHONPATH"}
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=WITHIN_S)


if __name__ == "__main__":
    sys.exit(main())

"""``make``'s .venv: the packages of one extra, in the versions of constraints.txt, on a Python that is tested.

uv fetches them, where it is on PATH or the package index has it, else pip. Only the standard library is used, and
nothing newer than Python 3.8: what is wrong with an old Python is said here.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
HASHES = "tools/release/hashes.txt"
"""What the release is built with. Where REQUIRE_HASHES is set nothing else is installed."""
STAMPS = (".demo", ".installed")
"""The Makefile's, of what is set up."""
WITHIN_S = 1800
NO_WHEEL = re.compile(r"Because (\S+?)==(\S+) has no (?:usable )?wheels")
FROM_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
"""How pip is told of a mirror, and what tells uv the same."""

if TYPE_CHECKING:
    Version = tuple[int, int]


class SetupError(Exception):
    """There can be no .venv. The message has the cure."""


class Python(NamedTuple):
    """One that is here."""

    command: str
    version: Version

    def __str__(self) -> str:
        return f"Python {spelled(self.version)} ({self.command})"


def spelled(version: Version) -> str:
    return ".".join(map(str, version))


def tested() -> list[Version]:
    """Those that pyproject.toml's classifiers name, oldest first."""
    text = (ROOT / "pyproject.toml").read_text()
    return [(3, int(minor)) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)]


def look_at(command: str) -> Python | None:
    """The Python of that name or path; ``None`` if there is none."""
    path = shutil.which(command)
    if path is None:
        return None
    ask = [path, "-c", "import sys; print(sys.version_info[0], sys.version_info[1])"]
    said = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
    words = said.stdout.split()
    return Python(command, (int(words[0]), int(words[1]))) if said.returncode == 0 and len(words) == 2 else None


def choose(given: str) -> Python:
    """What .venv is made with: the one that is given; else ``python3`` if it is tested, or the newest on PATH that is;
    else ``python3`` if it is newer than all that are tested.

    Raises:
        SetupError: there is none.
    """
    known = tested()
    if given:
        python = look_at(given)
        if python is None:
            raise SetupError(f"PYTHON={given}: no Python is there")
        if python.version < known[0]:
            raise SetupError(f"extauthz needs Python {spelled(known[0])} or later; this is {python}: {cure()}")
        return python
    usual = look_at("python3")
    if usual is not None and usual.version in known:
        return usual
    for version in reversed(known):
        python = look_at(f"python{spelled(version)}")
        if python is not None:
            return python
    if usual is not None and usual.version > known[-1]:
        return usual
    what = "there is none on PATH" if usual is None else f"this is {usual}"
    raise SetupError(f"extauthz needs Python {spelled(known[0])} or later; {what}: {cure()}")


def cure() -> str:
    """Which Python to take, and how: one that is here if there is one."""
    for version in reversed(tested()):
        command = f"python{spelled(version)}"
        if look_at(command) is not None:
            return f"make PYTHON={command}"
    return f"install Python {spelled(tested()[-1])}, then make PYTHON=python{spelled(tested()[-1])}"


def make_venv(python: Python, *, again: bool) -> None:
    """Make .venv, unless there is one. If ``again``, one of another Python is made anew.

    Raises:
        SetupError: Python's own module could not.
    """
    there = look_at(str(VENV / "bin" / "python"))
    if there is not None and not (again and there.version != python.version):
        return
    done = subprocess.run([python.command, "-m", "venv", "--clear", str(VENV)], timeout=WITHIN_S, check=False)
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(f"{python} makes no .venv; where its module venv is a package of its own, install that")


def find_uv() -> list[str] | None:
    """uv's command; ``None`` where it cannot be had. What is not on PATH is fetched into .venv."""
    if shutil.which("uv"):
        return ["uv"]
    own = VENV / "bin" / "uv"
    if not own.exists():
        pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--constraint=constraints.txt", "uv"], cwd=ROOT, timeout=WITHIN_S, check=False)
    return [str(own)] if own.exists() else None


def as_pip() -> dict[str, str]:
    """The environment, with what pip is told of mirrors and proxies said to uv, where nobody has told it."""
    ask = [str(VENV / "bin" / "python"), "-m", "pip", "config", "list"]
    said = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False).stdout
    told = {}
    for level in ("global", "user", "site", ":env:", "install"):  # the later the stronger
        for name, value in re.findall(rf"^{level}\.([\w-]+)=('.*'|\".*\")$", said, re.MULTILINE):
            if name in FROM_PIP:
                told[FROM_PIP[name]] = " ".join(str(ast.literal_eval(value)).split())
    if "UV_INDEX" in told:
        told["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # pip takes the best of all indexes
    return {**told, **os.environ}


def install(extra: str, python: Python) -> None:
    """Install into .venv what is missing there.

    Raises:
        SetupError: it cannot be had.
    """
    inside = str(VENV / "bin" / "python")
    if os.environ.get("REQUIRE_HASHES"):
        install_hashed([inside, "-m", "pip", "--disable-pip-version-check", "install"])
        return
    uv = find_uv()
    # Built where there is no libyaml, PyYAML lacks the reader that the gate uses.
    what = ["--constraint=constraints.txt", "--only-binary=pyyaml", "--editable", f".[{extra}]"]
    if uv is None:
        print("uv is not to be had: pip does it, which takes longer", flush=True)
        command = [inside, "-m", "pip", "--disable-pip-version-check", "install", *what]
        environment = dict(os.environ)
    else:
        command = [*uv, "pip", "install", f"--python={inside}", *what]
        environment = dict(os.environ) if uv == ["uv"] else as_pip()
    if not subprocess.run(command, cwd=ROOT, env=environment, timeout=WITHIN_S, check=False).returncode:
        return
    if python.version in tested():
        raise SetupError("a package could not be installed: the reason is above")
    missing = without_wheel(command, environment) if uv else []
    which = f"{', '.join(missing)} {'have' if len(missing) > 1 else 'has'} no wheel for it" if missing else "see above"
    raise SetupError(f"{python} is newer than the packages know: {which}. Take one that is tested: {cure()}")


def install_hashed(pip: list[str]) -> None:
    """Install what HASHES names, and this project beside it.

    Raises:
        SetupError: something cannot be had, or is not what it was.
    """
    packages = [*pip, "--quiet", "--no-deps", "--require-hashes", "--only-binary=pyyaml", f"--requirement={HASHES}"]
    project = [*pip, "--quiet", "--no-deps", "--no-build-isolation", "--editable", "."]
    for command in (packages, project):
        if subprocess.run(command, cwd=ROOT, timeout=WITHIN_S, check=False).returncode:
            raise SetupError("a package could not be installed: the reason is above")


def without_wheel(command: list[str], environment: dict[str, str]) -> list[str]:
    """Packages, with their versions, that would have to be built here. uv names one at a time."""
    found: dict[str, str] = {}
    while True:
        dry = [*command, "--dry-run", "--only-binary=:all:", *(f"--no-binary={name}" for name in found)]
        said = subprocess.run(dry, cwd=ROOT, env=environment, capture_output=True, text=True, check=False).stderr
        news = NO_WHEEL.search(said)
        if news is None or news[1] in found:
            return [f"{name} {version}" for name, version in found.items()]
        found[news[1]] = news[2]


def main(arguments: list[str]) -> int:
    """``python3 -m tests.environment EXTRA [PYTHON]``. 1 if there can be no .venv."""
    extra, given = arguments[0], "".join(arguments[1:2])
    try:
        python = choose(given)
        print(f"setting up .venv with extauthz[{extra}]: {python}, packages from the package index", flush=True)
        finished = any((VENV / stamp).exists() for stamp in STAMPS)
        make_venv(python, again=bool(given) or not finished)
        install(extra, look_at(str(VENV / "bin" / "python")) or python)
    except SetupError as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

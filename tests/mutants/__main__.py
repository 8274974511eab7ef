"""``make mutants``: changes the code in one place at a time, and looks whether any test or simulated world notices.

The checkout stays as it is: each job works on a copy of its own. A change that no test notices is put into simulated
worlds, drawn anew in each run. What survives both is a hole in the tests, unless ``equivalent.txt`` says why not.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import known
from tests.mutants.mutate import Mutant, mutants

ROOT = Path(__file__).parents[2]
LEDGER, DECISION = "tests/unit/ledger", "tests/unit/decision"
AREAS: dict[str, tuple[str, ...]] = {
    "extauthz/core/ledger": (DECISION, LEDGER, "tests/unit/test_recounting.py", "tests/unit/test_handover_file.py"),
    "extauthz/core/decision": (DECISION, LEDGER, "tests/unit/test_deciding.py", "tests/unit/test_cli_check.py"),
    "extauthz/ledger_store": ("tests/unit/ledger_store", "tests/contract/test_ledger_stores.py"),
    "extauthz/cluster/reads.py": ("tests/unit/cluster", "tests/contract/test_state_sources.py"),
    "extauthz/settlement": ("tests/unit/settlement", "tests/servers/test_access_log.py", "tests/unit/cluster"),
    "extauthz/servers/access_log.py": ("tests/servers/test_access_log.py", "tests/servers/test_access_log_stream.py"),
}
"""What is changed, and the tests that should notice: the fast ones first."""
WANTED = 0.95
WORLDS, STEPS = 10, 60
"""Worlds that run one after the other, and steps of each."""
SLACK_S = 20.0
LIMIT = 300


class Copy:
    """A copy of the checkout, for one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writes = 0
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def write(self, path: str, text: str) -> None:
        """Python takes a compiled file for valid that has the size and the second of its source."""
        self._writes += 1
        (self.folder / path).write_text(text)
        at_s = time.time() + 2 * self._writes
        os.utime(self.folder / path, (at_s, at_s))

    def run(self, words: Sequence[str], within_s: float) -> str:
        """``ok``, ``failed`` or ``timeout``."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        command = [sys.executable, *words]
        child = subprocess.Popen(
            command, cwd=self.folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            self.said, _ = child.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            self.said, _ = child.communicate()
            return "timeout"
        return "failed" if child.returncode else "ok"

    def test(self, tests: Sequence[str], within_s: float, path: str = "x.py") -> str:
        """Those first that are named like the file."""
        named = sorted(self.folder.glob(f"tests/*/*/test_{Path(path).stem}*.py"))
        tests = [*(str(one) for one in named if any(one.is_relative_to(self.folder / each) for each in tests)), *tests]
        there = [one for one in tests if (self.folder / one).exists()]
        assert there, f"none of {', '.join(tests)} is there"
        return self.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *there], within_s)

    def simulate(self, seed: int, within_s: float) -> str:
        flags = [f"--seed={seed}", f"--seeds={WORLDS}", f"--steps={STEPS}", "--jobs=1"]
        return self.run(["-m", "extauthz.cli", "simulate", *flags], within_s)


class Trial:
    """All copies, and what the unchanged code does in them."""

    def __init__(self, folder: Path, jobs: int, choose: random.Random, areas: Sequence[str], runs: int) -> None:
        self._copies: queue.Queue[Copy] = queue.Queue()
        copies = [Copy(folder / f"copy-{number}") for number in range(jobs)]
        self._choose = choose
        self._within_s = {area: self._time(copies[0], area) for area in areas}
        self._seeds = self._sound(copies[0], runs)
        for copy in copies:
            self._copies.put(copy)

    def _time(self, copy: Copy, area: str) -> float:
        began_s = time.monotonic()
        if copy.test(AREAS[area], LIMIT) != "ok":
            raise SystemExit(f"the tests of {area} fail without any change:\n{copy.said[-3000:]}")
        return 3 * (time.monotonic() - began_s) + SLACK_S

    def _sound(self, copy: Copy, runs: int) -> list[int]:
        """Runs of worlds that the unchanged code gets through."""
        found: list[int] = []
        for _ in range(2 * runs):
            seed = self._choose.randrange(10**8, 10**9)
            if copy.simulate(seed, LIMIT) == "ok":
                found.append(seed)
            else:
                print(f"the unchanged code does not get through {WORLDS} worlds from seed {seed}", flush=True)
            if len(found) == runs:
                break
        if len(found) < runs:
            raise SystemExit("the unchanged code breaks too many worlds: mend that first")
        return found

    def fate(self, area: str, mutant: Mutant) -> str:
        """``tests``, ``timeout`` or ``simulation``: what it was killed by. ``survived``."""
        copy = self._copies.get()
        try:
            copy.write(mutant.path, mutant.after)
            said = copy.test(AREAS[area], self._within_s[area], mutant.path)
            if said != "ok":
                return "tests" if said == "failed" else "timeout"
            broken = any(copy.simulate(seed, LIMIT) != "ok" for seed in self._seeds)
            return "simulation" if broken else "survived"
        finally:
            copy.write(mutant.path, mutant.before)
            self._copies.put(copy)


def found(area: str) -> list[Mutant]:
    """All mutants of an area."""
    there = ROOT / area
    files = sorted(there.rglob("*.py")) if there.is_dir() else [there]
    return [one for file in files for one in mutants(str(file.relative_to(ROOT)), file.read_text())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("areas", nargs="*", default=list(AREAS), help=f"of {', '.join(AREAS)}; a file in one of them")
    parser.add_argument("--mutants", type=int, default=64, help="how many are drawn; 0: all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--runs", type=int, default=10, help=f"runs of {WORLDS} worlds for what the tests leave; 0: none"
    )
    wanted = parser.parse_args()
    choose = random.Random(wanted.seed)
    entries = list(known.read(known.EQUIVALENT.read_text()))
    if old := known.stale(entries, ROOT):
        raise SystemExit("\n".join(["equivalent.txt speaks of lines that are gone:", *old]))
    every = [(_area(where), one) for where in wanted.areas for one in found(where)]
    drawn = [(area, one) for area, one in every if not any(entry.is_same(one) for entry in entries)]
    if wanted.mutants:
        drawn = choose.sample(drawn, min(wanted.mutants, len(drawn)))
    print(f"seed {wanted.seed}: {len(drawn)} of {len(every)} mutants, {len(entries)} known as equivalent", flush=True)
    with tempfile.TemporaryDirectory(prefix="extauthz-mutants-") as folder:
        areas = sorted({area for area, _ in drawn})
        trial = Trial(Path(folder), wanted.jobs, choose, areas, wanted.runs)
        with ThreadPoolExecutor(wanted.jobs) as pool:
            fates = list(pool.map(lambda each: _told(trial, *each), drawn))
    return _report(drawn, fates)


def _area(where: str) -> str:
    area = next((area for area in AREAS if Path(where).is_relative_to(area)), None)
    if area is None:
        raise SystemExit(f"no tests are named for {where}; there are {', '.join(AREAS)}")
    return area


def _told(trial: Trial, area: str, mutant: Mutant) -> str:
    fate = trial.fate(area, mutant)
    print(f"{fate:10} {mutant.path}:{mutant.line} {mutant.what}", flush=True)
    if fate == "survived":
        print(mutant.diff(), flush=True)
    return fate


def _report(drawn: Sequence[tuple[str, Mutant]], fates: Sequence[str]) -> int:
    counts = Counter((area, fate) for (area, _), fate in zip(drawn, fates, strict=True))
    kinds = ("tests", "timeout", "simulation", "survived")
    print(f"\n{'':30}" + "".join(f"{kind:>12}" for kind in kinds))
    for area in AREAS:
        print(f"{area:30}" + "".join(f"{counts[area, kind]:12}" for kind in kinds))
    killed = 1 - fates.count("survived") / len(fates) if fates else 1.0
    print(f"killed: {killed:.1%}, wanted: {WANTED:.0%}")
    return 0 if killed >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())

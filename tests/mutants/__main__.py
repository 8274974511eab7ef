"""``make mutants``: changes the code in one place at a time, and looks whether any test or simulated world notices.

The checkout stays as it is: a change is put into the memory of a forked process, where the tests run that run its lines
(``trying``); what cannot be put there is tried in a copy. A change that no test notices is put into simulated worlds,
drawn anew in each run. What survives both is a hole in the tests, unless ``equivalent.txt`` says why not.
"""

from __future__ import annotations

import argparse
import json
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.mutants import known
from tests.mutants.mutate import Mutant, mutants

ROOT = Path(__file__).parents[2]
LEDGER, DECISION = "tests/unit/ledger", "tests/unit/decision"
AREAS: dict[str, tuple[str, ...]] = {
    "extauthz/core/ledger": (
        DECISION,
        LEDGER,
        "tests/unit/test_recounting.py",
        "tests/unit/test_line_shown.py",
        "tests/unit/ledger_store/test_turns_shared.py",
        "tests/unit/test_docs.py",
    ),
    "extauthz/core/decision": (DECISION, LEDGER, "tests/unit/test_deciding.py", "tests/unit/test_cli_check.py"),
    "extauthz/core/quota/overrides.py": ("tests/unit/quota", "tests/unit/decision/test_modes.py"),
    "extauthz/serve/ledger_store": ("tests/unit/ledger_store", "tests/contract/test_ledger_stores.py"),
    "extauthz/inputs/cluster/live.py": ("tests/unit/cluster", "tests/contract/test_state_sources.py"),
    "extauthz/inputs/settlement": (
        "tests/unit/settlement",
        "tests/servers/test_access_log.py",
        "tests/unit/cluster/test_reads.py",
    ),
    "extauthz/serve/servers/access_log.py": ("tests/servers/test_access_log.py", "tests/servers/test_access_log.py"),
}
"""What is changed, and the tests that should notice."""
WANTED = 0.95
WORLDS, STEPS = 10, 60
"""Worlds that run one after the other, and steps of each."""
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

    def test(self, tests: Sequence[str], within_s: float) -> str:
        there = [one for one in tests if (self.folder / one).exists()]
        assert there, f"none of {', '.join(tests)} is there"
        return self.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *there], within_s)

    def simulate(self, seed: int, within_s: float) -> str:
        flags = [f"--seed={seed}", f"--seeds={WORLDS}", f"--steps={STEPS}", "--jobs=1"]
        return self.run(["-m", "tests.worlds", *flags], within_s)


class Trial:
    """All copies, and worlds that the unchanged code gets through."""

    def __init__(self, folder: Path, jobs: int, choose: random.Random, runs: int) -> None:
        self._folder = folder
        self._jobs = jobs
        self._copies: queue.Queue[Copy] = queue.Queue()
        copies = [Copy(folder / f"copy-{number}") for number in range(jobs)]
        self._choose = choose
        self._seeds = self._sound(copies[0], runs)
        for copy in copies:
            self._copies.put(copy)

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

    def fates(self, area: str, mutants: Sequence[Mutant]) -> list[str]:
        """Of each, what it was killed by: ``tests``, ``timeout`` or ``simulation``; else ``survived``."""
        with ThreadPoolExecutor(self._jobs) as pool:
            waiting = {
                number: pool.submit(self._end, area, mutants[number], said) for number, said in self._try(area, mutants)
            }
            return [waiting[number].result() for number in range(len(mutants))]

    def _try(self, area: str, mutants: Sequence[Mutant]) -> Iterator[tuple[int, str]]:
        """What ``trying`` says of each."""
        told = self._folder / "mutants.json"
        told.write_text(
            json.dumps({"tests": AREAS[area], "jobs": self._jobs, "mutants": [asdict(one) for one in mutants]})
        )
        ours, theirs = os.pipe()
        command = [sys.executable, "-m", "tests.mutants.trying", str(told), str(theirs)]
        with (
            (self._folder / "said").open("w") as said,
            os.fdopen(ours) as lines,
            subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs], stdout=said, stderr=said),
        ):
            os.close(theirs)
            heard = 0
            for line in lines:
                answer = json.loads(line)
                if "failed" in answer:
                    raise SystemExit(f"the tests of {area} fail without any change:\n{answer['failed']}")
                yield answer["number"], answer["fate"]
                heard += 1
        if heard < len(mutants):
            raise SystemExit(f"the tests of {area} did not run:\n{(self._folder / 'said').read_text()[-3000:]}")

    def _end(self, area: str, mutant: Mutant, said: str) -> str:
        copy = self._copies.get()
        try:
            fate = self._in_copy(copy, area, mutant, said)
        finally:
            copy.write(mutant.path, mutant.before)
            self._copies.put(copy)
        print(f"{fate:10} {mutant.path}:{mutant.line} {mutant.what}", flush=True)
        if fate == "survived":
            print(mutant.diff(), flush=True)
        return fate

    def _in_copy(self, copy: Copy, area: str, mutant: Mutant, said: str) -> str:
        """What is tried on files: a change of what runs at import, and worlds."""
        if said in ("tests", "timeout"):
            return said
        copy.write(mutant.path, mutant.after)
        if said == "not-tried":
            tested = copy.test(AREAS[area], LIMIT)
            if tested != "ok":
                return "tests" if tested == "failed" else "timeout"
        broken = any(copy.simulate(seed, LIMIT) != "ok" for seed in self._seeds)
        return "simulation" if broken else "survived"


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
        trial = Trial(Path(folder), wanted.jobs, choose, wanted.runs)
        fates: dict[str, list[str]] = {}
        for area in sorted({area for area, _ in drawn}):
            fates[area] = trial.fates(area, [one for its, one in drawn if its == area])
    return _report(fates)


def _area(where: str) -> str:
    area = next((area for area in AREAS if Path(where).is_relative_to(area)), None)
    if area is None:
        raise SystemExit(f"no tests are named for {where}; there are {', '.join(AREAS)}")
    return area


def _report(fates: Mapping[str, Sequence[str]]) -> int:
    counts = Counter((area, fate) for area, ones in fates.items() for fate in ones)
    kinds = ("tests", "timeout", "simulation", "survived")
    print(f"\n{'':30}" + "".join(f"{kind:>12}" for kind in kinds))
    for area in fates:
        print(f"{area:30}" + "".join(f"{counts[area, kind]:12}" for kind in kinds))
    survived = sum(counts[area, "survived"] for area in fates)
    killed = 1 - survived / counts.total() if fates else 1.0
    print(f"killed: {killed:.1%}, wanted: {WANTED:.0%}")
    return 0 if killed >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())

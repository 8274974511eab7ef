"""What the machine does meanwhile, what a process has used of it, and which processor it runs on."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF
from typing import Self


def processors() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def apart() -> tuple[int, int]:
    """A processor for who asks, with Envoy, and one for who answers; the same one where there is no second."""
    ours = processors()
    return ours[0], ours[-1]


NICE = -5
"""Of what is measured, where the user may: who has more threads gets more of a processor that others use too."""


def pin(pid: int, processor: int) -> None:
    """All threads of a process and of its children, and so those that they start later."""
    for one in family(pid):
        for task in Path(f"/proc/{one}/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that has ended meanwhile
                os.sched_setaffinity(int(task.name), {processor})
                with suppress(PermissionError):
                    os.setpriority(os.PRIO_PROCESS, int(task.name), NICE)


def pinned(command: Sequence[str], processor: int) -> list[str]:
    """The same command, started in this way."""
    return ["nice", f"--adjustment={NICE}", "taskset", "--cpu-list", str(processor), *command]


def family(pid: int) -> list[int]:
    """A process and its children (proc(5), children)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def processor_s(pids: Iterable[int]) -> float:
    """User and system time so far of these processes, all their threads together (proc(5), stat)."""
    return sum(map(_processor_s, pids))


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pids: Iterable[int], field: str) -> int:
    """``VmRSS``, what is resident of these processes, or ``VmHWM``, the most so far (proc(5), status)."""
    texts = (Path(f"/proc/{pid}/status").read_text().splitlines() for pid in pids)
    return 1024 * sum(int(line.split()[1]) for lines in texts for line in lines if line.startswith(f"{field}:"))


def counted(page: str, *begins: str) -> float:
    """The sum of the series of a page of metrics that begin so."""
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(begins))


class Others:
    """What others on this machine used meanwhile. A context manager; every process that it starts must end in it."""

    def __enter__(self) -> Self:
        self._begin = (time.monotonic(), _busy_s(), _ours_s())
        return self

    def __exit__(self, *_: object) -> None:
        took_s, busy_s, ours_s = (
            now - was for now, was in zip((time.monotonic(), _busy_s(), _ours_s()), self._begin, strict=True)
        )
        self.used = max(0.0, busy_s - ours_s) / took_s
        """In processors."""

    def __str__(self) -> str:
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        count = os.cpu_count()
        return (
            f"others used {self.used:.2f} of the machine's {count} processors on average; its load at the end: {load}"
        )


def _busy_s() -> float:
    """Processor time that all of the machine has used since its start (proc(5), stat)."""
    return busy(Path("/proc/stat").read_text().partition("\n")[0]) / os.sysconf("SC_CLK_TCK")


def busy(line: str) -> int:
    """Ticks of the first line of /proc/stat, but for those in which a processor idled or waited for a disk."""
    user, nice, system, _idle, _waits, *interrupts_and_stolen = map(int, line.split()[1:9])
    return user + nice + system + sum(interrupts_and_stolen)


def _ours_s() -> float:
    """Of this process and of its children that have ended."""
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))

"""What the machine does meanwhile, what a process has used of it, and which processor it runs on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def processors() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def apart() -> tuple[int, int]:
    """A processor for who asks, with Envoy, and one for who answers; the same one where there is no second."""
    ours = processors()
    return ours[0], ours[-1]


def pin(pid: int, processor: int) -> None:
    """All threads of a process and of its children, and so those that they start later."""
    for one in family(pid):
        for task in Path(f"/proc/{one}/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that has ended meanwhile
                os.sched_setaffinity(int(task.name), {processor})


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


def busy_s() -> float:
    """Processor time that all of the machine has used since its start (proc(5), stat)."""
    user, nice, system, idle, waits, *rest = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")

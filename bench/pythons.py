"""What a check costs on each Python: one gate on several interpreters, in turn (docs/internals/image.md)."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from extauthz.demo.gate import Gate
from tests.support import numbered

from . import check, inputs
from .figures import median_ratio
from .h2load import Connection
from .population import Population


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints each Python's processor time of a check against the first one's."""
    parser = argparse.ArgumentParser(prog="python -m bench.pythons", description=__doc__)
    parser.add_argument(
        "pythons",
        nargs="+",
        metavar="NAME=COMMAND",
        help="a Python that has extauthz: 3.13=/opt/v/bin/python, or 3.13='chroot /machine /opt/v/bin/python'",
    )
    parser.add_argument("--quick", action="store_true", help="few workloads and short rounds: does it run?")
    asked = parser.parse_args(arguments)
    size = check.QUICK if asked.quick else check.FULL
    with ExitStack() as stack:
        servers = {
            name: _server(stack, shlex.split(command), size.population)
            for name, _, command in (each.partition("=") for each in asked.pythons)
        }
        for server in servers.values():
            server.warm_up(size.seconds)
        for number in range(size.rounds):
            for server in list(servers.values())[:: 1 if number % 2 else -1]:
                server.measure(size.seconds)
    first = next(iter(servers.values()))
    for name, server in servers.items():
        ratio = median_ratio(first.costs, server.costs)
        print(f"{name}: {1e6 / median(server.costs):.0f} µs a check, {ratio:.2f} of the first")


def _server(stack: ExitStack, python: list[str], population: Population) -> check.Server:
    directory, logs = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
    files = inputs.write(population, directory)
    serve = [*python, *numbered.command(["serve"], **inputs.UNBOUNDED)[1:]]
    gate = stack.enter_context(Gate(files.quotas, files.state, logs / "gate.log", serve=serve))
    connection = stack.enter_context(Connection(gate.port, check.METHOD))
    return check.Server(gate.pid, connection, check.growing(check.checks(population)))


if __name__ == "__main__":
    main()

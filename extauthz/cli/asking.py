"""Where ``top``, ``check`` and ``explain`` get their answers: files, or a gate that runs.

Both ways give the JSON of the HTTP API (``docs/api.md``).
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from extauthz.cli import exits
from extauthz.cli.flags.asking import check_credentials
from extauthz.core.model import WorkloadRef
from extauthz.inputs.files.content import FilesError
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.service.setting_types import ConfigFileError, SettingsError

if TYPE_CHECKING:  # it loads a reader of YAML, which who asks a server does without
    from extauthz.inputs.files.objects import Placed


class Source(Protocol):
    """Answers as JSON. Raises Problem."""

    def quotas(self) -> list[dict[str, Any]]: ...

    def quota(self, name: str) -> dict[str, Any]: ...

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]: ...

    def line(self, quota: str) -> dict[str, Any]: ...

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]: ...

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]: ...


def answered(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The same command, with an exit code where it gets no answer."""

    def guarded(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except BrokenPipeError:
            raise
        except (ConfigFileError, FilesError, OSError) as error:
            return exits.fail(exits.DATA, error)
        except SettingsError as error:
            return exits.fail(exits.USAGE, error)
        except Problem as problem:
            return exits.fail(exits.UNAVAILABLE, problem)

    return guarded


@contextmanager
def source(arguments: argparse.Namespace, more: Sequence[Placed] = ()) -> Iterator[Source]:
    """Where the flags say; where they say nothing, a gate in the cluster if there is a kubectl.

    Args:
        more: objects that a state of files gets beside its own. A gate that runs knows what its cluster has.

    Raises:
        SettingsError: the flags say two places, or none.
        FilesError, OSError: a file cannot be used.
        Problem: kubectl does not get to the gate.
    """
    places = {"server": arguments.server, "port-forward": arguments.port_forward}
    given = [name for name, place in places.items() if place is not None]
    files = [name for name in ("quotas", "state") if getattr(arguments, name) is not None]
    if len(given) + bool(files) > 1:
        one, other = [*given, *files][:2]
        raise SettingsError(f"--{one} and --{other} are two places; leave one of them out")
    check_credentials(arguments)
    # A client of a server needs no gate, and a gate no client: what is not needed is not loaded.
    if given or (not files and shutil.which("kubectl") is not None):
        from extauthz.cli.asking_server import asked

        with asked(arguments) as server:
            yield server
    else:
        from extauthz.cli.asking_files import Files, gate

        yield Files(gate(arguments, more))

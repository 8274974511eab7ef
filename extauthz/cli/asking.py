"""Where ``top``, ``check`` and ``explain`` get their answers: files, or a gate that runs.

Both ways give the JSON of the HTTP API (``docs/api.md``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from extauthz.cli import exits
from extauthz.cli.flags.asking import check_credentials
from extauthz.inputs.files.content import FilesError
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.service.setting_types import ConfigFileError, SettingsError

if TYPE_CHECKING:  # a client of a server needs no gate and no reader of YAML, and a gate no client
    from extauthz.cli.asking_files import Files
    from extauthz.cli.asking_server import Server
    from extauthz.inputs.files.objects import Placed

Source: TypeAlias = "Files | Server"
"""Answers as JSON. Raises Problem."""


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


def source(arguments: argparse.Namespace, more: Sequence[Placed] = ()) -> Source:
    """Where the flags say.

    Args:
        more: objects that a state of files gets beside its own. A gate that runs knows what its cluster has.

    Raises:
        SettingsError: the flags say two places, or none.
        FilesError, OSError: a file cannot be used.
    """
    files = [name for name in ("quotas", "state") if getattr(arguments, name) is not None]
    if arguments.server is not None and files:
        raise SettingsError(f"--server and --{files[0]} are two places; leave one of them out")
    check_credentials(arguments, "kubeconfig")
    if arguments.server is not None:
        from extauthz.cli import asking_server

        return asking_server.asked(arguments, arguments.kubeconfig)
    from extauthz.cli import asking_files

    return asking_files.asked(arguments, more)

"""``extauthz serve``: run the gate until SIGTERM."""

from __future__ import annotations

import argparse
import sys

import yaml

from extauthz.cli import exits
from extauthz.cli.flags.settings import effective
from extauthz.serve.service.loading import shown
from extauthz.serve.service.setting_types import ConfigFileError, SettingsError
from extauthz.serve.service.settings import Settings, variable, word

REQUIRED = {
    "quotas": "kubernetes, or a file or a directory of WorkspaceQuota objects",
    "state": "kubernetes, or a Kubernetes List in a file",
}


def run(arguments: argparse.Namespace) -> int:
    """Serve; 0 after a clean stop."""
    try:
        settings = effective(arguments)
        if arguments.print_settings:
            yaml.safe_dump(shown(settings), sys.stdout, sort_keys=False)
            return 0
        _require(settings)
    except ConfigFileError as error:
        return exits.fail(exits.DATA, error)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    return _serve(settings)


def _require(settings: Settings) -> None:
    for field, what in REQUIRED.items():
        if getattr(settings, field) is None:
            raise SettingsError(
                f"--{word(field)} is needed: {what} (or {variable(field)}, or {word(field)} in --config)"
            )


def _serve(settings: Settings) -> int:
    from extauthz.inputs.files.content import FilesError
    from extauthz.serve.service.app import serve
    from extauthz.serve.service.listening import ListenError

    try:
        serve(settings, sys.stderr)
    except FilesError as error:
        return exits.fail(exits.DATA, error)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    except ListenError as error:
        return exits.fail(exits.UNAVAILABLE, error)
    return 0

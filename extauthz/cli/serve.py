"""``extauthz serve``: run the gate until SIGTERM."""

from __future__ import annotations

import argparse
import os
import sys

import yaml

from extauthz.cli import exits, options
from extauthz.service.loading import ConfigFileError, SettingsError
from extauthz.service.settings import Settings, shown, variable, word

DESCRIPTION = """\
Runs the gate: the ext_authz service and Envoy's access log on --grpc (`off`: no Envoy asks); /healthz, /readyz,
/metrics and the API on --http; an admission webhook on --webhook (https). Quotas and state come from files or from a
cluster (`kubernetes`), each by itself. Both are watched; a change that is good takes effect within a second, a bad one
is refused and the one before stays in force.

SIGTERM or SIGINT stops it cleanly: health turns NOT_SERVING, checks under way finish, exit 0. A second one ends it at
once."""

EPILOG = """\
examples:
  extauthz serve --quotas kubernetes --state kubernetes
  extauthz serve --quotas quotas/ --state kubernetes --kubeconfig ~/.kube/config
  extauthz serve --quotas quotas/ --state state.yaml
  extauthz serve --config gate.yaml --webhook :9443 --webhook-cert tls.crt --webhook-key tls.key
  extauthz serve --config gate.yaml --webhook :9443 --webhook-self-signed --grpc off
  extauthz serve --config gate.yaml --grpc unix:/run/extauthz/gate.sock --log-format text
  EXTAUTHZ_LOG_LEVEL=warning extauthz serve --config gate.yaml --print-settings

exit codes: 0 stopped as told, 64 wrong usage, 65 a file is wrong, 69 cannot listen"""

REQUIRED = {
    "quotas": "kubernetes, or a file or a directory of WorkspaceQuota objects",
    "state": "kubernetes, or a Kubernetes List in a file",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--print-settings", action="store_true", help="Print the effective settings and exit.")
    options.add(parser, Settings.model_fields)


def run(arguments: argparse.Namespace) -> int:
    """Serve; 0 after a clean stop."""
    try:
        settings = options.settings(arguments)
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
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C core prints lines of its own; what matters we say ourselves
    # Its handlers of a fork start threads in the new process, which can end that one before it runs a program.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from extauthz.files.problems import FilesError
    from extauthz.service.app import serve
    from extauthz.service.listening import ListenError

    try:
        serve(settings, sys.stderr)
    except FilesError as error:
        return exits.fail(exits.DATA, error)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    except ListenError as error:
        return exits.fail(exits.UNAVAILABLE, error)
    return 0

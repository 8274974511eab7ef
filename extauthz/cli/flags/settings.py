"""Flags made from the settings, so that flag, variable, file and help never disagree: ``serve`` has all of them; and
what flags, environment and ``--config`` make together."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path

from extauthz.serve.service.settings import CONFIG, ENV_PREFIX, Described, Settings, described, variable, word

LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
"""A page of the documentation, as descriptions name it in Markdown."""

SET = "setting_"
"""Prefix of settings among the parsed arguments, so no other argument is taken for a setting."""


def add(parser: argparse.ArgumentParser, fields: Iterable[str] = ()) -> None:
    """A flag for each of ``fields``, or for each setting, and ``--config``."""
    group = parser.add_argument_group(
        "settings", "Each is also a variable (named below) and a key of the --config file (the flag without dashes)."
    )
    group.add_argument(
        "--config", type=Path, metavar="FILE", help=f"Settings in YAML; flags and environment win over it. [{CONFIG}]"
    )
    known = described()
    for field in fields or known:
        info = known[field]
        group.add_argument(
            f"--{word(field)}",
            dest=SET + field,
            default=argparse.SUPPRESS,
            help=_help(field, info),
            metavar=info.kind.metavar,
            action="append" if info.kind.is_list else "store",
        )


def effective(arguments: argparse.Namespace) -> Settings:
    """The settings of a command that has these flags.

    Raises:
        SettingsError: one line a problem.
    """
    flags = {name.removeprefix(SET): value for name, value in vars(arguments).items() if name.startswith(SET)}
    if not flags and arguments.config is None and not any(name.startswith(ENV_PREFIX) for name in os.environ):
        return Settings()
    from extauthz.serve.service import loading

    return loading.load(flags, os.environ, arguments.config)


def _help(field: str, info: Described) -> str:
    default = "" if info.default in (None, "", ()) else f"Default: {info.default}. "
    text = LINK.sub(r"docs/\1", info.description or "")
    return f"{text} {default}[{variable(field)}]".replace("%", "%%")


SERVE = """\
Runs the gate: the ext_authz service and Envoy's access log on --grpc (`off`: no Envoy asks); /healthz, /readyz,
/metrics and the API on --http; an admission webhook on --webhook (https). Quotas and state come from files or from a
cluster (`kubernetes`), each by itself. Both are watched; a change that is good takes effect within a second, a bad one
is refused and the one before stays in force.

SIGTERM or SIGINT stops it cleanly: health turns NOT_SERVING, checks under way finish, exit 0. A second one ends it at
once."""

SERVE_EPILOG = """\
examples:
  extauthz serve --quotas kubernetes --state kubernetes
  extauthz serve --quotas quotas/ --state kubernetes --kubeconfig ~/.kube/config
  extauthz serve --quotas quotas/ --state state.yaml
  extauthz serve --config gate.yaml --webhook :9443 --webhook-cert tls.crt
  extauthz serve --config gate.yaml --webhook :9443 --grpc off
  extauthz serve --config gate.yaml --grpc unix:/run/extauthz/gate.sock
  EXTAUTHZ_LOG_LEVEL=warning extauthz serve --config gate.yaml --print-settings

exit codes: 0 stopped as told, 64 wrong usage, 65 a file is wrong, 69 cannot listen"""


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("serve", description=SERVE, epilog=SERVE_EPILOG)
    parser.add_argument("--print-settings", action="store_true", help="Print the effective settings and exit.")
    add(parser)

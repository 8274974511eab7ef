"""Flags of ``extauthz serve``."""

from __future__ import annotations

import argparse

from extauthz.cli.flags import settings

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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("serve", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--print-settings", action="store_true", help="Print the effective settings and exit.")
    settings.add(parser)

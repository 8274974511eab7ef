"""``extauthz doctor``: whether the gate is really in the way."""

from __future__ import annotations

import argparse
import asyncio
import sys

from extauthz.cli import exits
from extauthz.inputs.kube.session import NoClusterError, own_namespace
from extauthz.tools.doctor import table
from extauthz.tools.doctor.dump import NoDumpError
from extauthz.tools.doctor.examine import Options, examine


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 if a check fails."""
    given = vars(arguments)
    names = ("admin", "config_dump", "kubeconfig", "url", "ca", "token_file", "deployment", "listener", "profile")
    told = any((arguments.admin, arguments.config_dump, arguments.url, arguments.kubeconfig))
    in_pod = not told and own_namespace() is not None
    if not told and not in_pod:
        sys.stderr.write("extauthz doctor: nothing to look at; give --admin or --config-dump, --url or --kubeconfig\n")
        return exits.USAGE
    options = Options(
        **{name: given[name] for name in names},
        in_pod=in_pod,
        outage=arguments.on_outage,
        service=arguments.service,
        account="/".join(arguments.gate_account),
    )
    try:
        rows = asyncio.run(examine(options))
    except (NoDumpError, NoClusterError, OSError) as error:
        return exits.fail(exits.DATA, error)
    sys.stdout.write(table.OUTPUTS[arguments.output](rows))
    return 1 if table.failed(rows, strict=arguments.strict) else 0

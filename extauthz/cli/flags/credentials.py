"""Flags that say what ``--server`` is shown by who asks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from extauthz.service.setting_types import SettingsError

FLAGS: Final = {
    "ca": "Authorities of the gate's certificate, PEM. Default: the system's.",
    "token_file": "A bearer token, such as `kubectl create token` prints.",
    "client_cert": "A client certificate of an authority in the gate's --api-client-ca, PEM.",
    "client_key": "Its private key, PEM.",
    "kubeconfig": "In place of these: shows the token, or the client certificate, of its current user.",
}


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Their flags."""
    group = parser.add_argument_group("a --server that asks who you are (its --api address, https)")
    for name, text in FLAGS.items():
        group.add_argument(f"--{word(name)}", type=Path, metavar="FILE", help=text)


def word(name: str) -> str:
    """As it is spelled after its dashes."""
    return name.replace("_", "-")


def check(arguments: argparse.Namespace) -> None:
    """Whether the flags go together; else SettingsError."""
    given = [name for name in FLAGS if getattr(arguments, name) is not None]
    if not given:
        return
    if arguments.server is None:
        raise SettingsError(f"--{word(given[0])} is for --server https://…; give that, or leave it out")
    if not arguments.server.startswith("https://"):
        raise SettingsError(f"--{word(given[0])}: credentials go over https only; write --server https://…")
    if (arguments.client_cert is None) != (arguments.client_key is None):
        raise SettingsError("--client-cert and --client-key go together; give both or neither")
    if arguments.kubeconfig is not None and set(given) - {"kubeconfig", "ca"}:
        raise SettingsError("--kubeconfig stands in place of --token-file and --client-cert; leave one of them out")

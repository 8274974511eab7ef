"""What ``--server`` is shown by who asks, and how its certificate is judged."""

from __future__ import annotations

import argparse
import asyncio
import ssl
import urllib.request
from pathlib import Path
from typing import Any, Final, NamedTuple

from extauthz.files.problems import FileProblem, FilesError
from extauthz.kube.credentials import KubeConfig, NoClusterError
from extauthz.kube.session import authorization
from extauthz.service.loading import SettingsError

FLAGS: Final = {
    "ca": "Authorities of the gate's certificate, PEM. Default: the system's.",
    "token_file": "A bearer token, such as `kubectl create token` prints.",
    "client_cert": "A client certificate of an authority in the gate's --api-client-ca, PEM.",
    "client_key": "Its private key, PEM.",
    "kubeconfig": "In place of these: shows the token, or the client certificate, of its current user.",
}

CURE: Final = "show who asks with --token-file, --client-cert and --client-key, or --kubeconfig"


def add(parser: argparse.ArgumentParser) -> None:
    """Their flags."""
    group = parser.add_argument_group("a --server that asks who you are (its --api address, https)")
    for name, text in FLAGS.items():
        group.add_argument(f"--{_word(name)}", type=Path, metavar="FILE", help=text)


class Shown(NamedTuple):
    """What is shown."""

    token: str | None = None
    """The header ``Authorization``."""
    cert: Path | None = None
    key: Path | None = None


def opener(arguments: argparse.Namespace) -> urllib.request.OpenerDirector:
    """Opens URLs of ``--server`` as the flags say. It follows no redirect: that could lead the token elsewhere.

    Raises:
        SettingsError: the flags do not go together.
        FilesError, OSError: a file cannot be used.
    """
    _check(arguments)
    shown = _of_kubeconfig(arguments.kubeconfig) if arguments.kubeconfig is not None else _of_flags(arguments)
    made = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_context(arguments.ca, shown)), _NoRedirect)
    if shown.token is not None:
        made.addheaders.append(("Authorization", shown.token))
    return made


def _check(arguments: argparse.Namespace) -> None:
    given = [name for name in FLAGS if getattr(arguments, name) is not None]
    if not given:
        return
    if arguments.server is None:
        raise SettingsError(f"--{_word(given[0])} is for --server https://…; give that, or leave it out")
    if not arguments.server.startswith("https://"):
        raise SettingsError(f"--{_word(given[0])}: credentials go over https only; write --server https://…")
    if (arguments.client_cert is None) != (arguments.client_key is None):
        raise SettingsError("--client-cert and --client-key go together; give both or neither")
    if arguments.kubeconfig is not None and set(given) - {"kubeconfig", "ca"}:
        raise SettingsError("--kubeconfig stands in place of --token-file and --client-cert; leave one of them out")


def _of_flags(arguments: argparse.Namespace) -> Shown:
    token = None
    if arguments.token_file is not None:
        text = arguments.token_file.read_text(encoding="ascii", errors="replace").strip()
        if not text.isascii() or not text.isprintable() or not text:
            raise _useless("--token-file", arguments.token_file, "it holds no token", "write one line, the token")
        token = f"Bearer {text}"
    return Shown(token, arguments.client_cert, arguments.client_key)


def _of_kubeconfig(path: Path) -> Shown:
    try:
        configuration, token = asyncio.run(_loaded(path))
    except NoClusterError as error:
        raise _useless("--kubeconfig", path, str(error), "name one that kubectl can use") from None
    if token is not None:
        return Shown(token)
    if not configuration.cert_file:
        detail = "its current user has neither a token nor a client certificate"
        raise _useless("--kubeconfig", path, detail, "use --token-file")
    return Shown(None, Path(configuration.cert_file), Path(configuration.key_file))


async def _loaded(path: Path) -> tuple[Any, str | None]:
    configuration = await KubeConfig(path).load(anew=True)
    return configuration, await authorization(configuration)


def _context(ca: Path | None, shown: Shown) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise _useless("--ca", ca, f"no certificates ({error})", "write them in PEM") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go is not as strict, and many an authority relies on it
    if shown.cert is not None:
        try:
            context.load_cert_chain(shown.cert, shown.key)
        except OSError as error:
            detail = f"no certificate of the key {shown.key} ({error})"
            raise _useless("--client-cert", shown.cert, detail, "write both in PEM") from None
    return context


def _useless(flag: str, path: object, detail: str, cure: str) -> FilesError:
    return FilesError([FileProblem(f"{flag} {path}", None, "", detail, cure)])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The redirect is the answer."""


def _word(name: str) -> str:
    return name.replace("_", "-")

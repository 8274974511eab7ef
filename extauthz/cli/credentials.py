"""What ``--server`` is shown by who asks, and how its certificate is judged."""

from __future__ import annotations

import argparse
import ssl
import urllib.request
from pathlib import Path
from typing import Any, Final, NamedTuple

from extauthz.inputs.files.content import FileProblem, FilesError

CURE: Final = "show who asks with --token-file, --client-cert and --client-key, or --kubeconfig"


class Shown(NamedTuple):
    token: str | None = None
    """The header ``Authorization``."""
    cert: Path | None = None
    key: Path | None = None


def opener(ca: Path | None, shown: Shown) -> urllib.request.OpenerDirector:
    """Opens URLs of ``--server``. It follows no redirect: that could lead the token elsewhere.

    Raises:
        FilesError: a file cannot be used.
    """
    made = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_context(ca, shown)), _NoRedirect)
    if shown.token is not None:
        made.addheaders.append(("Authorization", shown.token))
    return made


def of_flags(arguments: argparse.Namespace) -> Shown:
    """What the files of the flags hold.

    Raises:
        FilesError, OSError: a file cannot be used.
    """
    token = None
    if arguments.token_file is not None:
        text = arguments.token_file.read_text(encoding="ascii", errors="replace").strip()
        if not text.isascii() or not text.isprintable() or not text:
            raise useless("--token-file", arguments.token_file, "it holds no token", "write one line, the token")
        token = f"Bearer {text}"
    return Shown(token, arguments.client_cert, arguments.client_key)


def of_kubeconfig(path: Path) -> Shown:
    """What its current user has: a token, or a client certificate.

    Raises:
        FilesError: it cannot be used.
    """
    import asyncio

    from extauthz.inputs.kube.session import KubeConfig, NoClusterError, authorization  # it needs the Kubernetes client

    async def loaded() -> tuple[Any, str | None]:
        configuration = await KubeConfig(path).load(anew=True)
        return configuration, await authorization(configuration)

    try:
        configuration, token = asyncio.run(loaded())
    except NoClusterError as error:
        raise useless("--kubeconfig", path, str(error), "name one that kubectl can use") from None
    if token is not None:
        return Shown(token)
    if not configuration.cert_file:
        detail = "its current user has neither a token nor a client certificate"
        raise useless("--kubeconfig", path, detail, "use --token-file")
    return Shown(None, Path(configuration.cert_file), Path(configuration.key_file))


def _context(ca: Path | None, shown: Shown) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise useless("--ca", ca, f"no certificates ({error})", "write them in PEM") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go is not as strict, and many an authority relies on it
    if shown.cert is not None:
        try:
            context.load_cert_chain(shown.cert, shown.key)
        except OSError as error:
            detail = f"no certificate of the key {shown.key} ({error})"
            raise useless("--client-cert", shown.cert, detail, "write both in PEM") from None
    return context


def useless(flag: str, path: object, detail: str, cure: str) -> FilesError:
    """A file of a flag cannot be used."""
    return FilesError([FileProblem(f"{flag} {path}", None, "", detail, cure)])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The redirect is the answer."""

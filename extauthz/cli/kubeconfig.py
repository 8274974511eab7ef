"""What a kubeconfig has to show to a gate."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from extauthz.cli.credentials import Shown, useless
from extauthz.kube.session import KubeConfig, NoClusterError, authorization


def shown(path: Path) -> Shown:
    """The token, or the client certificate, of its current user.

    Raises:
        FilesError: it cannot be used.
    """
    try:
        configuration, token = asyncio.run(_loaded(path))
    except NoClusterError as error:
        raise useless("--kubeconfig", path, str(error), "name one that kubectl can use") from None
    if token is not None:
        return Shown(token)
    if not configuration.cert_file:
        detail = "its current user has neither a token nor a client certificate"
        raise useless("--kubeconfig", path, detail, "use --token-file")
    return Shown(None, Path(configuration.cert_file), Path(configuration.key_file))


async def _loaded(path: Path) -> tuple[Any, str | None]:
    configuration = await KubeConfig(path).load(anew=True)
    return configuration, await authorization(configuration)

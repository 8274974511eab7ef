"""Finds the API server's address and credentials, with the official client's loaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import EXPIRY_SKEW_PREVENTION_DELAY, KubeConfigLoader, KubeConfigMerger

from extauthz.core.model import Tree

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the CA (``kubernetes.io/docs/tasks/run-application/access-api-from-pod``)."""

PLUGIN_WITHIN_S = 30.0


def own_namespace(folder: Path = SERVICE_ACCOUNT) -> str | None:
    """The namespace of the pod that this runs in; ``None`` outside a pod."""
    try:
        return (folder / "namespace").read_text().strip() or None
    except OSError:
        return None


class NoClusterError(Exception):
    """The API server's address or the credentials are not known. The text has the cure."""


class Source(Protocol):
    """Loads the client's configuration."""

    async def load(self, *, anew: bool) -> Configuration:
        """Read it.

        Args:
            anew: the API server refused what was read before: use nothing of that.

        Raises:
            NoClusterError: with the cure.
        """


class InCluster:
    """A pod's service account. The kubelet rotates the token file; whoever loads, reads it."""

    def __init__(self, environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> None:
        self._environ = environ
        self._folder = folder

    async def load(self, *, anew: bool) -> Configuration:
        loader = InClusterConfigLoader(
            token_filename=str(self._folder / "token"),
            cert_filename=str(self._folder / "ca.crt"),
            try_refresh_token=False,
            environ=self._environ,
        )
        configuration = Configuration()
        try:
            loader.load_and_set(configuration)
        except (ConfigException, OSError) as error:
            cure = "outside a pod, name a kubeconfig; in a pod, let its service account's token be mounted"
            raise NoClusterError(f"no cluster to connect to: {error} ({cure})") from error
        return configuration


class KubeConfig:
    """A kubeconfig: client certificates, token, token file, exec plugin, as kubectl reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: KubeConfigLoader | None = None
        """The loader knows when a plugin's credentials expire, and reads token files whenever it loads."""

    async def load(self, *, anew: bool) -> Configuration:
        configuration = Configuration()
        try:
            async with asyncio.timeout(PLUGIN_WITHIN_S):
                loader = self._loader() if anew or self._kept is None else self._kept
                await loader.load_and_set(configuration)
        except TimeoutError as error:
            raise self._useless(f"its exec plugin did not answer within {PLUGIN_WITHIN_S:.0f} s") from error
        except (ConfigException, OSError, ValueError) as error:
            raise self._useless(str(error)) from error
        except (AttributeError, KeyError, TypeError, yaml.YAMLError) as error:  # the loader takes its form for granted
            raise self._useless("it must be YAML with a cluster, a user and a current context") from error
        self._kept = loader
        if _has_plugin(loader) and not (configuration.api_key or configuration.cert_file):
            raise self._useless("its exec plugin brought no credentials (it logged why)")
        return configuration

    def _loader(self) -> KubeConfigLoader:
        if not self._path.is_file():
            raise ConfigException("no such file")
        return _Loader(KubeConfigMerger(str(self._path)).config, config_base_path=None)

    def _useless(self, why: str) -> NoClusterError:
        return NoClusterError(f"kubeconfig {self._path} is of no use: {why}")


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the loaders carry no types
    """As the official one. But like client-go it runs a plugin without expiry once, not at every load.

    The expiry is judged here: the official one asks ``datetime.utcnow()``, of which Python 3.12 and later warn.
    """

    async def load_from_exec_plugin(self) -> Tree:
        told = self.__dict__
        expiry: datetime | None = told.get("exec_plugin_expiry")
        if "token" in told and (expiry is None or expiry - EXPIRY_SKEW_PREVENTION_DELAY > datetime.now(UTC)):
            return True
        for name in ("token", "exec_plugin_expiry"):
            told.pop(name, None)
        return await super().load_from_exec_plugin()


def _has_plugin(loader: KubeConfigLoader) -> bool:
    return bool(loader._user) and "exec" in loader._user

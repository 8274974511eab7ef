"""Keeps a connection to the API server usable: it reads credentials again in time, and sets TLS up again when its files
change."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import EXPIRY_SKEW_PREVENTION_DELAY, KubeConfigLoader, KubeConfigMerger
from yarl import URL

from extauthz.core.model import Tree

REFRESH_S = 60.0
"""Tokens are read again when they are older, as client-go does (``client-go/transport/token_source.go``)."""

CHUNK_BYTES = 64 * 1024
"""How much is read at once. Between two reads others get their turn."""


class Message(NamedTuple):
    """A request without credentials."""

    method: str
    url: URL
    """Path and query."""
    body: Tree | None
    content_type: str
    timeout: aiohttp.ClientTimeout


class Access:
    """One reading of the credentials, and the client's transport made with it."""

    def __init__(self, client: ApiClient, authorization: str | None, fingerprint: bytes, user_agent: str) -> None:
        self.client = client
        self.authorization = authorization
        self.fingerprint = fingerprint
        """Digest of everything that TLS was set up with."""
        self._user_agent = user_agent

    @property
    def server(self) -> str:
        return str(self.client.configuration.host)

    async def send(self, message: Message) -> aiohttp.ClientResponse:
        """The response. Its body is not read yet. Raises what aiohttp raises."""
        headers = {"Accept": "application/json", "User-Agent": self._user_agent, "Content-Type": message.content_type}
        if self.authorization:
            headers["Authorization"] = self.authorization
        answer = await self.client.rest_client.request(
            message.method,
            URL(self.server + str(message.url), encoded=True),
            headers=headers,
            body=message.body,
            _request_timeout=message.timeout,
        )
        response: aiohttp.ClientResponse = answer.response
        return response


class Session:
    """Gives the present ``Access``. Must be closed."""

    def __init__(
        self, source: InCluster | KubeConfig, user_agent: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._user_agent = user_agent
        self._clock = clock
        self._access: Access | None = None
        self._read_s = 0.0
        self._reading = asyncio.Lock()

    @property
    def server(self) -> str:
        return self._access.server if self._access else "the API server"

    async def current(self) -> Access:
        """Raises NoClusterError."""
        async with self._reading:
            if self._access is None:
                return await self._read(anew=False)
            if self._clock() - self._read_s >= REFRESH_S:
                with suppress(NoClusterError):  # what was read before may still do; if not, ``renewed`` says why
                    return await self._read(anew=False)
            return self._access

    async def renewed(self, refused: Access) -> Access:
        """What to try after ``refused`` was not accepted: itself, if there is nothing newer. Raises NoClusterError."""
        async with self._reading:
            if self._access is not None and self._access is not refused:
                return self._access  # somebody else was faster
            return await self._read(anew=True)

    async def close(self) -> None:
        if self._access is not None:
            await self._access.client.close()

    async def _read(self, *, anew: bool) -> Access:
        self._read_s = self._clock()
        configuration = await self._source.load(anew=anew)
        before, fingerprint = self._access, _fingerprint(configuration)
        shown = await authorization(configuration)
        if before and (before.authorization, before.fingerprint) == (shown, fingerprint):
            return before
        client = before.client if before and before.fingerprint == fingerprint else _client(configuration)
        self._access = Access(client, shown, fingerprint, self._user_agent)
        if before and before.client is not client:
            await before.client.close()  # its watches break and are opened anew
        return self._access


async def authorization(configuration: Configuration) -> str | None:
    """The header ``Authorization`` that goes with what was loaded; ``None``: there is no token."""
    value = await configuration.get_api_key_with_prefix("BearerToken")
    return value.strip() if value else None  # files end in newlines


def _client(configuration: Configuration) -> ApiClient:
    configuration.disable_strict_ssl_verification = True  # Go is not as strict, and many a cluster's CA relies on it
    configuration.proxy = configuration.proxy or environment_proxy(URL(configuration.host))
    # Left to itself aiohttp looks for proxies and a .netrc at each request, in a thread.
    configuration.client_session_kwargs = {"read_bufsize": CHUNK_BYTES, "trust_env": False}
    return ApiClient(configuration)


def environment_proxy(server: URL) -> str | None:
    """The proxy that ``HTTPS_PROXY`` (``HTTP_PROXY``) and ``NO_PROXY`` say for a server."""
    return None if proxy_bypass(server.host or "") else getproxies().get(server.scheme)


def _fingerprint(configuration: Configuration) -> bytes:
    digest = hashlib.sha256()
    for name in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(hashlib.sha256(Path(name).read_bytes()).digest() if name else b"-")
    rest = (configuration.host, configuration.verify_ssl, configuration.tls_server_name, configuration.proxy)
    digest.update(repr(rest).encode())
    return digest.digest()


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


class InCluster:
    """A pod's service account. The kubelet rotates the token file; whoever loads, reads it."""

    def __init__(self, environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> None:
        self._environ = environ
        self._folder = folder

    async def load(self, *, anew: bool) -> Configuration:
        """The client's configuration. Raises NoClusterError, with the cure."""
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
        """The same.

        Args:
            anew: the API server refused what was read before: use nothing of that.
        """
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

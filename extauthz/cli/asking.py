"""Where ``top``, ``headroom`` and ``check`` get their answers: a gate that runs (HTTP API), or one made of files.

Both ways give the JSON of the HTTP API (``docs/api.md``).
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from extauthz.cli import credentials, exits, forwarding, options
from extauthz.cli.flags.asking import PLACE
from extauthz.cli.flags.credentials import check
from extauthz.cluster import file as state_file
from extauthz.core.decision.gate import Gate
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Queries
from extauthz.files.content import FilesError
from extauthz.servers.api import questions
from extauthz.servers.api.answers import Answers
from extauthz.servers.api.problems import Problem
from extauthz.servers.api.shown import named
from extauthz.service.deciding import new_id
from extauthz.service.pod_groups import declared
from extauthz.service.setting_types import ConfigFileError, SettingsError
from extauthz.service.settings import KUBERNETES, policy
from extauthz.sources import file as quota_file


class Source(Protocol):
    """Answers as JSON. Raises Problem."""

    def quotas(self) -> list[dict[str, Any]]: ...

    def quota(self, name: str) -> dict[str, Any]: ...

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]: ...

    def line(self, quota: str) -> dict[str, Any]: ...

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]: ...

    def headroom_of(self, asked: dict[str, Any]) -> dict[str, Any]: ...

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]: ...


def answered(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The same command, with an exit code where it gets no answer."""

    def guarded(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except BrokenPipeError:
            raise
        except (ConfigFileError, FilesError, OSError) as error:
            return exits.fail(exits.DATA, error)
        except SettingsError as error:
            return exits.fail(exits.USAGE, error)
        except Problem as problem:
            return exits.fail(exits.UNAVAILABLE, problem)

    return guarded


@contextmanager
def source(arguments: argparse.Namespace) -> Iterator[Source]:
    """Where the flags say; where they say nothing, a gate in the cluster if there is a kubectl.

    Raises:
        SettingsError: the flags say two places, or none.
        FilesError, OSError: a file cannot be used.
        Problem: kubectl does not get to the gate.
    """
    places = {"server": arguments.server, "port-forward": arguments.port_forward}
    given = [name for name, place in places.items() if place is not None]
    files = [name for name in ("quotas", "state") if getattr(arguments, name) is not None]
    if len(given) + bool(files) > 1:
        one, other = [*given, *files][:2]
        raise SettingsError(f"--{one} and --{other} are two places; leave one of them out")
    check(arguments)
    # A client of a server needs no gate, and a gate no client: what is not needed is not loaded.
    if given or (not files and shutil.which("kubectl") is not None):
        with asked(arguments) as server:
            yield server
    else:
        yield Files(gate(arguments))


TIMEOUT_S = 10.0


@contextmanager
def asked(arguments: argparse.Namespace) -> Iterator[Server]:
    """The gate that the flags name; without any, that of a default installation, by kubectl. Raises as ``source``."""
    if arguments.server is not None:
        yield Server(arguments.server, credentials.opener(arguments.ca, _shown(arguments)))
    else:
        with forwarding.forwarded(arguments.port_forward or PLACE) as url:
            yield Server(url)


def _shown(arguments: argparse.Namespace) -> credentials.Shown:
    if arguments.kubeconfig is None:
        return credentials.of_flags(arguments)
    # it needs the Kubernetes client

    return credentials.shown(arguments.kubeconfig)


class Server:
    """A gate that runs."""

    def __init__(self, url: str, opener: urllib.request.OpenerDirector | None = None) -> None:
        self._open = (opener or urllib.request.build_opener()).open
        if not url.startswith(("http://", "https://")):
            raise SettingsError(f"--server: {url!r} is no URL; write for example http://127.0.0.1:9192")
        self._root = f"{url.rstrip('/')}/api/v1"

    def quotas(self) -> list[dict[str, Any]]:
        page = self._ask("items", "/quotas")
        found: list[dict[str, Any]] = page["items"]
        while page["continue"] is not None:
            page = self._ask("items", "/quotas", {"continue": page["continue"]})
            found += page["items"]
        return found

    def quota(self, name: str) -> dict[str, Any]:
        return self._ask("resources", f"/quotas/{_part(name)}")

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        return self._ask("items", f"/quotas/{_part(quota)}/workloads", {"sort": sort, "limit": limit})

    def line(self, quota: str) -> dict[str, Any]:
        return self._ask("items", f"/quotas/{_part(quota)}/line")

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]:
        one = {key: _part(text) for key, text in named(ref).items()}
        path = f"/namespaces/{one['namespace']}/workloads/{one['resource']}/{one['name']}/headroom"
        return self._ask("replicas", path)

    def headroom_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("items", "/headroom", body=asked)["items"][0]
        return found

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._ask("verdict", "/decisions", body=asked)

    def _ask(
        self, member: str, path: str, query: Mapping[str, object] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """An answer, which has ``member`` if a gate gives it."""
        given = urlencode({key: value for key, value in (query or {}).items() if value is not None})
        url = f"{self._root}{path}{'?' * bool(given)}{given}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 (http or https)
        try:
            with self._open(request, timeout=TIMEOUT_S) as response:
                found = json.load(response)
        except urllib.error.HTTPError as error:
            with error:  # it is also the answer, and open
                raise Problem(error.code, _detail(error)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Problem(503, f"--server: {self._root} {_why(error)}") from None
        if not isinstance(found, dict) or member not in found:
            raise Problem(503, f"--server: {self._root} is no gate; is it the --http address of extauthz?")
        return found


def _why(error: Exception) -> str:
    """Why there was no answer."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"shows a certificate that is not trusted: {reason.verify_message}; name its authority with --ca"
    return f"does not answer: {reason}"


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        told = str(json.load(error)["detail"])
        return f"{told} ({credentials.CURE})" if error.code == 401 else told
    except (ValueError, KeyError, TypeError):
        return f"the server answered {error.code} {error.reason}; is it the --http address of extauthz?"


def _part(text: str) -> str:
    return quote(text, safe="")


SAVED: Final = {
    "quotas": "kubectl get workspacequotas -o yaml > quotas.yaml",
    "state": "kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml > state.yaml",
}
"""How to get the files from a cluster."""


def gate(arguments: argparse.Namespace) -> Gate:
    """A gate that knows what the files say. Raises as ``source``."""
    if arguments.quotas is None or arguments.state is None:
        raise SettingsError(
            "say where to look: --quotas FILE --state FILE, or --server URL of a gate that runs, or "
            "--port-forward NAMESPACE/SERVICE of one in a cluster"
        )
    for name, command in SAVED.items():
        given = str(getattr(arguments, name))
        if given == KUBERNETES or given.startswith(("http:/", "https:/")):
            raise SettingsError(
                f"--{name}: files are read here, not {given}; save them first: {command}; or use --server"
            )
    settings = options.settings(arguments)
    made = Gate(policy(settings))
    made.epoch_s = time.time() if arguments.now is None else arguments.now
    made.load_quotas(quota_file.load(arguments.quotas).tree, 0.0)
    where = declared(settings.scaled_templates, settings.pod_groups)
    made.load_state(state_file.load(arguments.state, where).state, 0.0)
    return made


class Files:
    """What files say."""

    def __init__(self, known: Gate) -> None:
        decide = lambda reading: known.decide(reading, new_id(), 0.0, charge=False)  # noqa: E731
        self._answers = Answers(Queries(known.ledger), decide, lambda: 0.0, customs=known.customs)

    def quotas(self) -> list[dict[str, Any]]:
        return list(self._answers.quotas(limit=10**9)["items"])

    def quota(self, name: str) -> dict[str, Any]:
        return self._answers.quota(name)

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        import asyncio

        return asyncio.run(self._answers.workloads(quota, sort, limit))

    def line(self, quota: str) -> dict[str, Any]:
        return self._answers.line(quota)

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]:
        return self._answers.headroom(ref)

    def headroom_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._answers.headroom_of(questions.manifest(asked, self._answers.customs))

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._answers.decision(questions.write(asked, self._answers.customs))

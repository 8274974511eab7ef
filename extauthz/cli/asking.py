"""Where ``top``, ``headroom`` and ``check`` get their answers: files, or a gate that runs.

Both ways give the JSON of the HTTP API (``docs/api.md``).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from extauthz.cli import credentials, exits, forwarding, options
from extauthz.cluster import file as state_file
from extauthz.core.decision.gate import Gate
from extauthz.core.kinds import GATED
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Queries
from extauthz.files.problems import FilesError
from extauthz.servers.api import questions
from extauthz.servers.api.answers import Answers
from extauthz.servers.api.problems import Problem
from extauthz.servers.api.shown import named
from extauthz.service.deciding import new_id
from extauthz.service.loading import ConfigFileError, SettingsError
from extauthz.service.settings import KUBERNETES, policy
from extauthz.sources import file as quota_file

TIMEOUT_S = 10.0

SETTINGS = (
    "on_unreadable", "on_unknown_workload", "on_unknown_footprint", "on_unspecified", "on_unknown_policy",
    "on_unsynced",
)  # fmt: skip

SHORT: Final = {"deploy": "deployments", "sts": "statefulsets", "rs": "replicasets", "rc": "replicationcontrollers"}

SAVED: Final = {
    "quotas": "kubectl get workspacequotas -o yaml > quotas.yaml",
    "state": "kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml > state.yaml",
}
"""How to get the files from a cluster."""


class Source(Protocol):
    """Answers as JSON. Raises Problem."""

    def quotas(self) -> list[dict[str, Any]]: ...

    def quota(self, name: str) -> dict[str, Any]: ...

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]: ...

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


def add(parser: argparse.ArgumentParser) -> None:
    """The flags that say where answers come from, and how they are printed."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help="A gate that runs, by its --http address: http://127.0.0.1:9192; or by its --api address: https://…",
    )
    parser.add_argument(
        "--port-forward",
        metavar="NAMESPACE/SERVICE",
        help=f"A gate in the cluster, by kubectl. Default, where no other place is given: {forwarding.PLACE}",
    )
    parser.add_argument("--quotas", type=Path, metavar="FILE|DIR", help="WorkspaceQuota objects, in place of a server.")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="With --quotas: a Kubernetes List of namespaces and workloads."
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")
    credentials.add(parser)
    options.add(parser, SETTINGS)


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
    files = [name for name in SAVED if getattr(arguments, name) is not None]
    if len(given) + bool(files) > 1:
        one, other = [*given, *files][:2]
        raise SettingsError(f"--{one} and --{other} are two places; leave one of them out")
    opener = credentials.opener(arguments)
    if arguments.server is not None:
        yield Server(arguments.server, opener)
    elif given or (not files and forwarding.kubectl() is not None):
        with forwarding.forwarded(arguments.port_forward or forwarding.PLACE) as url:
            yield Server(url)
    else:
        yield Files(gate(arguments))


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
    made = Gate(policy(options.settings(arguments)))
    made.epoch_s = time.time()
    made.load_quotas(quota_file.load(arguments.quotas).tree, 0.0)
    made.load_state(state_file.load(arguments.state).state, 0.0)
    return made


class Files:
    """What files say."""

    def __init__(self, known: Gate) -> None:
        decide = lambda reading: known.decide(reading, new_id(), 0.0, charge=False)  # noqa: E731
        self._answers = Answers(Queries(known.ledger), decide, lambda: 0.0)

    def quotas(self) -> list[dict[str, Any]]:
        return list(self._answers.quotas(limit=10**9)["items"])

    def quota(self, name: str) -> dict[str, Any]:
        return self._answers.quota(name)

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        return asyncio.run(self._answers.workloads(quota, sort, limit))

    def headroom(self, ref: WorkloadRef) -> dict[str, Any]:
        return self._answers.headroom(ref)

    def headroom_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._answers.headroom_of(questions.manifest(asked))

    def decision(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._answers.decision(questions.write(asked))


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


def workload(text: str) -> tuple[str, str, str]:
    """API group, plural and name of ``deploy/web``, ``deployment/web``, ``deployments.apps/web``.

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no KIND/NAME; write for example deploy/web")
    plural, _, group = SHORT.get(kind.lower(), kind.lower()).partition(".")
    for one in GATED:
        if plural in (one.key[1], one.name.lower()) and group in ("", one.key[0]):
            return *one.key, name
    if group:
        return group, plural, name
    known = ", ".join(sorted((*SHORT, *(one.key[1] for one in GATED))))
    raise argparse.ArgumentTypeError(f"{kind!r} is no kind with replicas; there are {known}, and PLURAL.GROUP")

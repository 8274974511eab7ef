"""Run by ``test_doctor_around.py`` in a network namespace: what gets to the API server beside Envoy, and what does not.

The addresses that the cluster publishes are this network's own, and its rules do what a pod's network would: let a
connection through, refuse it, drop it, or lead it to Envoy.
"""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from extauthz.demo.certs import Authority
from extauthz.demo.envoy import Envoy
from tests.controlplane.api import Tree
from tests.controlplane.workspace import Workspace, workload
from tests.controlplane.world import World
from tests.e2e.doctoring import examined, given, options

SERVICE, NODE, NODE_6 = "10.0.0.1", "172.18.0.2", "fd00::2"
"""The first is in the API server's certificate. The others are not, as those of a load balancer may not be."""
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
HERE = f"tried from {socket.gethostname()}, where a dry run on around/web is decided: "

Doctor = Callable[..., dict[str, str]]


def run(command: str) -> None:
    subprocess.run(shlex.split(command), check=True, timeout=30)


@pytest.fixture(scope="session", autouse=True)
def network() -> None:
    """Before any other fixture: a new network namespace has not even a loopback that is up."""
    for command in ("link set lo up", *(f"address add {each} dev lo" for each in (f"{SERVICE}/32", f"{NODE}/32"))):
        run(f"ip {command}")
    with contextlib.suppress(subprocess.CalledProcessError):  # without IPv6 its address is as far away as any
        run(f"ip address add {NODE_6}/128 dev lo nodad")


@contextmanager
def rule(table: str, words: str) -> Iterator[None]:
    """For what the processes of this network send."""
    run(f"iptables --table {table} --append OUTPUT --protocol tcp {words}")
    try:
        yield
    finally:
        run(f"iptables --table {table} --delete OUTPUT --protocol tcp {words}")


def leading(address: str, port: int) -> contextlib.AbstractContextManager[None]:
    """What goes there goes to a port of loopback."""
    return rule("nat", f"--destination {address} --jump REDIRECT --to-ports {port}")


def firewall(address: str, does: str) -> contextlib.AbstractContextManager[None]:
    """For what goes there, wherever it is led."""
    return rule("filter", f"--match conntrack --ctorigdst {address} --jump {does}")


@contextmanager
def behind_the_service(world: World, *addresses: str, family: str = "IPv4") -> Iterator[None]:
    """As API servers publish themselves."""
    name = f"around-{family.lower()}"
    slice_ = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family,
        "endpoints": [{"addresses": [each]} for each in addresses],
        "ports": [{"name": "https", "port": 6443}],
    }
    world.api.call("POST", SLICES, slice_)
    try:
        yield
    finally:
        world.api.call("DELETE", f"{SLICES}/{name}")


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Workspace]:
    with Workspace(world, "around", {"pods": "5"}) as made:
        made.create(workload("web", 2, {"cpu": "100m"}))
        yield made


@pytest.fixture(scope="module")
def envoy(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    with Envoy(options(world), tmp_path_factory.mktemp("envoy")) as running:
        yield running


@pytest.fixture
def doctor(
    world: World, envoy: Envoy, web: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Doctor]:
    """The row of the ways around, in the autoscaler's place. Nothing that it does may change anything."""
    flags = given(world, envoy, tmp_path, "around/web")

    def told(**changed: object) -> dict[str, str]:
        return examined(capsys, flags | changed)[1]["way around"]

    yield told
    assert web.replicas("web") == 2


def said(row: dict[str, str]) -> Tree:
    return row["verdict"], row["found"]


OPEN = f"{HERE}taken undecided (200) at {SERVICE}:443"


def test_an_address_where_a_write_is_taken_undecided_is_a_warning_with_a_cure(world: World, doctor: Doctor):
    with leading(SERVICE, world.plane.port):
        row = doctor()
    assert said(row) == ("warn", OPEN)
    assert row["cure"].startswith("let a NetworkPolicy")


def test_an_address_that_leads_to_envoy_asks_the_gate_after_all(doctor: Doctor, envoy: Envoy):
    with leading(SERVICE, envoy.port):
        assert said(doctor()) == ("ok", f"{HERE}decided as well (403) at {SERVICE}:443")


WALLS = {
    "refused": ("REJECT", "Connection refused"),
    "unreachable": ("REJECT --reject-with icmp-host-unreachable", "No route to host"),
    "dropped": ("DROP", "nothing came within 3 s"),
}


@pytest.mark.parametrize(("does", "why"), WALLS.values(), ids=WALLS)
def test_an_address_behind_a_firewall_is_well_and_without_it_is_not(world: World, doctor: Doctor, does: str, why: str):
    with leading(SERVICE, world.plane.port):
        with firewall(SERVICE, does):
            assert said(doctor()) == ("ok", f"{HERE}no connection ({why}) at {SERVICE}:443")
        assert said(doctor()) == ("warn", OPEN)


def test_each_address_is_told_for_itself(world: World, doctor: Doctor, envoy: Envoy):
    """One is an API server whose certificate has not the address in it, but its name."""
    with (
        leading(SERVICE, envoy.port),
        leading(NODE, world.plane.port),
        behind_the_service(world, NODE),
        behind_the_service(world, NODE_6, family="IPv6"),
    ):
        row = doctor()
    assert row["verdict"] == "warn"
    one, two, three = row["found"].removeprefix(HERE).split("; ")
    assert one == f"decided as well (403) at {SERVICE}:443"
    assert two == f"taken undecided (200) at {NODE}:6443"
    assert three.startswith("no connection (")
    assert three.endswith(f" at [{NODE_6}]:6443")


def test_of_many_addresses_it_says_how_many_were_left_out(world: World, doctor: Doctor):
    with behind_the_service(world, *(f"10.1.0.{number}" for number in range(1, 21))):
        row = doctor()
    assert row["verdict"] == "warn"
    assert row["found"].endswith("; 5 more were not tried")
    assert "10.1.0.15:6443" in row["found"]
    assert "10.1.0.16:6443" not in row["found"]


def test_with_what_the_gate_lets_pass_nothing_is_shown_and_no_write_is_tried(world: World, doctor: Doctor):
    told = "a connection at 10.0.0.1:443; no write was tried"
    elsewhere = f"tried from {socket.gethostname()}, which was not seen to be where the autoscaler is: "
    with leading(SERVICE, world.plane.port):
        for changed in ({"canary": "default/nothing"}, {"url": None}):
            assert said(doctor(**changed)) == ("warn", elsewhere + told)
    assert said(doctor(url=None))[0] == "warn", "that it is closed to somebody else closes nothing"


def test_an_envoy_with_an_authority_of_its_own_hides_no_api_server(world: World, doctor: Doctor, tmp_path: Path):
    """The autoscaler's ``--ca`` does not vouch for the API server then, the kubeconfig does."""
    own = Authority(tmp_path, "Envoys own CA")
    pair = own.issue("envoy")
    its = replace(options(world), cert_file=str(pair.cert), key_file=str(pair.key))
    with Envoy(its, tmp_path / "envoy") as envoy, leading(SERVICE, world.plane.port):
        admin = "http://" + (envoy.access_log.parent / "admin").read_text()
        row = doctor(url=f"https://127.0.0.1:{envoy.port}", ca=own.ca, admin=admin)
    assert said(row) == ("warn", OPEN)


def test_without_a_token_the_api_servers_own_refusal_tells_as_much(world: World, doctor: Doctor):
    with leading(SERVICE, world.plane.port):
        assert said(doctor(**{"token-file": None})) == ("warn", f"{HERE}answered undecided (401) at {SERVICE}:443")

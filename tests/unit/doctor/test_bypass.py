"""Which addresses of the API server are dialled, and what is said of what became of them."""

from __future__ import annotations

import pytest

from extauthz.doctor import bypass, dump
from extauthz.doctor.bypass import Found, State, Tried
from extauthz.doctor.table import Verdict
from extauthz.service.addresses import Address

SERVICE = {"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 443}]}}
SLICE = {"ports": [{"port": 6443}], "endpoints": [{"addresses": ["172.18.0.2"]}]}
CLUSTER, NODE = Address("10.0.0.1", 443), Address("172.18.0.2", 6443)


def test_the_service_and_what_is_behind_it_are_published():
    assert bypass.published(SERVICE, [SLICE, SLICE]) == [CLUSTER, NODE]


def test_of_two_families_both_addresses_are():
    both = {"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ports": [{"port": 443}]}}
    slice_ = {"ports": [{"port": 6443}], "endpoints": [{"addresses": ["fd00::2"]}]}
    assert list(map(str, bypass.published(both, [slice_]))) == ["10.0.0.1:443", "[fd00::1]:443", "[fd00::2]:6443"]


NOWHERE = {
    "no-ports": ({"spec": {"clusterIP": "10.0.0.1"}}, [{"ports": None, "endpoints": SLICE["endpoints"]}]),
    "no-addresses": ({"spec": {"clusterIP": "None", "ports": [{"port": 443}]}}, [{"ports": [{"port": 1}]}]),
}


@pytest.mark.parametrize(("service", "slices"), NOWHERE.values(), ids=NOWHERE)
def test_half_an_address_is_none(service, slices):
    assert bypass.published(service, slices) == []


def proxy(*listeners: tuple[str, tuple[str, int]], clusters: tuple[str, ...] = ()) -> dump.Dump:
    """Whose listeners all ask the gate."""
    ext_authz = {
        "@type": "x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        "grpc_service": {"envoy_grpc": {"cluster_name": "extauthz"}},
    }
    manager = {"@type": "x.v3.HttpConnectionManager", "http_filters": [{"typed_config": ext_authz}]}
    active = {"filter_chains": [{"filters": [{"typed_config": manager}]}]}
    return dump.Dump(
        [dump.Listener(name, active, "", at) for name, at in listeners], {name: {} for name in clusters}, {}, {}
    )


GATED = {
    "by-the-listeners-name": proxy(("10.0.0.1_443", ("", 0))),
    "by-where-it-listens": proxy(("apiserver", ("10.0.0.1", 443))),
}


@pytest.mark.parametrize("asks", GATED.values(), ids=GATED)
def test_what_a_listener_that_asks_the_gate_carries_needs_no_dialling(asks: dump.Dump):
    assert bypass.ungated([CLUSTER, NODE], asks) == [NODE]
    assert bypass.ungated([CLUSTER, NODE], None) == [CLUSTER, NODE]


def test_there_is_no_way_around_where_every_address_asks():
    row = bypass.row(Tried("here", "", []), None)
    assert (row.verdict, row.found) == (
        Verdict.OK,
        "every address that the cluster publishes of its API server asks the gate",
    )


def test_of_no_cluster_nothing_is_said():
    assert bypass.row(None, None).verdict is Verdict.SKIPPED


CLOSED, ASKS = Found(CLUSTER, State.CLOSED, "closed"), Found(NODE, State.ASKS, "asks")
OPEN, UNTOLD = Found(CLUSTER, State.OPEN, "open"), Found(NODE, State.UNKNOWN, "untold")
VERDICTS = {
    "closed": ([CLOSED], "team-a/web", 0, "ok", ""),
    "caught": ([ASKS], "team-a/web", 0, "ok", ""),
    "closed-and-caught": ([CLOSED, ASKS], "team-a/web", 0, "ok", ""),
    "open": ([OPEN], "team-a/web", 0, "warn", bypass.CLOSE),
    "open-among-others": ([ASKS, OPEN, UNTOLD], "team-a/web", 9, "warn", bypass.CLOSE),
    "not-known": ([CLOSED, UNTOLD], "team-a/web", 0, "warn", bypass.LOOK),
    "more-than-were-tried": ([CLOSED], "team-a/web", 1, "warn", bypass.CLOSE),
    "closed-from-elsewhere": ([CLOSED], "", 0, "warn", bypass.BE_THERE),
    "connected-from-elsewhere": ([UNTOLD], "", 0, "warn", bypass.BE_THERE),
}


@pytest.mark.parametrize(("found", "about", "left", "verdict", "cure"), VERDICTS.values(), ids=VERDICTS)
def test_only_where_a_write_is_decided_is_what_cannot_be_reached_well(found, about, left, verdict, cure):
    row = bypass.row(Tried("autoscaler-0", about, found, left), None)
    assert (row.verdict, row.cure) == (verdict, cure)
    assert row.found.startswith(
        "tried from autoscaler-0, where a dry run on team-a/web is decided: " if about else "tried from "
    )


def test_it_says_of_which_addresses_the_same_is_true_and_how_many_were_left_out():
    other = Found(Address("10.0.0.2", 443), State.OPEN, "open")
    row = bypass.row(Tried("here", "team-a/web", [OPEN, UNTOLD, other], 3), None)
    assert row.found.endswith("open at 10.0.0.1:443, 10.0.0.2:443; untold at 172.18.0.2:6443; 3 more were not tried")


def test_from_elsewhere_it_says_so_and_what_was_not_tried():
    row = bypass.row(Tried("laptop", "", [CLOSED]), None)
    place = "tried from laptop, which was not seen to be where the autoscaler is"
    assert row.found == f"{place}: closed at 10.0.0.1:443; no write was tried"


def test_a_proxy_that_passes_on_what_it_does_not_know_is_named_where_it_matters():
    passing = proxy(clusters=("PassthroughCluster",))
    assert bypass.row(Tried("here", "a/b", [OPEN]), passing).found.endswith("(PassthroughCluster)")
    assert "Passthrough" not in bypass.row(Tried("here", "a/b", [CLOSED]), passing).found

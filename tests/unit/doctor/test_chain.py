"""What the doctor says of a mesh's listener: our chain merged into istiod's, and what may stand beside it."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any

import pytest
from pydantic.warnings import PydanticDeprecatedSince212

from extauthz.tools.doctor import chain, dump
from extauthz.tools.doctor.table import Verdict

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from extauthz.tools.render import istio, options

Tree = dict[str, Any]
NAME = "10.96.0.1_443"
PATCHES = istio.envoy_filter(options.MeshOptions())["spec"]["configPatches"]


def listener() -> Tree:
    """As Envoy has it after istiod merged the patch into its own."""
    (patch,) = [each["patch"]["value"] for each in PATCHES if each["applyTo"] == "LISTENER"]
    address = {"socket_address": {"address": "10.96.0.1", "port_value": 443}}
    own = {"filters": [{"name": "envoy.filters.network.tcp_proxy"}]}
    return copy.deepcopy({"name": NAME, "address": address} | patch | {"filter_chains": [own, *patch["filter_chains"]]})


def dumped(
    tree: Tree, error: str = "", cluster_error: str = "", awaited: tuple[str, ...] = (), there: tuple[str, ...] = ()
) -> dump.Dump:
    state: Tree = {"name": NAME, "active_state": {"listener": tree}}
    state |= {"error_state": {"details": error}} if error else {}
    clusters: list[Tree] = [{"cluster": {"name": "extauthz"}}]
    if cluster_error:
        failed = {"failed_configuration": {"name": "extauthz"}, "details": cluster_error}
        clusters.append({"error_state": failed})
    return dump.parse(
        {
            "configs": [
                {"@type": "envoy.admin.v3.ListenersConfigDump", "dynamic_listeners": [state]},
                {"@type": "envoy.admin.v3.ClustersConfigDump", "dynamic_active_clusters": clusters},
                {
                    "@type": "envoy.admin.v3.SecretsConfigDump",
                    "dynamic_warming_secrets": [{"name": name} for name in awaited],
                    "dynamic_active_secrets": [{"name": name} for name in there],
                },
            ]
        }
    )


@pytest.mark.parametrize(
    ("awaited", "there", "verdict"),
    [
        (("serving",), ("gate-ca",), Verdict.FAIL),
        (("gate-client", "gate-ca"), ("serving",), Verdict.FAIL),
        (("serving",), ("serving",), Verdict.OK),
        (("default", "ROOTCA"), ("serving",), Verdict.OK),
    ],
    ids=["missing", "several", "still-there-of-a-drained-listener", "the-mesh-its-own"],
)
def test_a_certificate_that_envoy_waits_for_is_told(awaited: tuple[str, ...], there: tuple[str, ...], verdict: Verdict):
    row = chain.rows(dumped(listener(), awaited=awaited, there=there), chain.Wanted())[0]
    assert (row.name, row.verdict) == ("accepted", verdict)
    told = [name for name in awaited if f"Envoy has no {name} " in row.found]
    assert told == (list(awaited) if verdict is Verdict.FAIL else [])


def test_a_certificate_that_envoy_waits_for_is_no_warning_beside_another_listeners_refusal():
    state = dumped(listener(), awaited=("serving",))
    other = dump.Listener("other", None, "no such file")
    row = chain.rows(state._replace(listeners=[*state.listeners, other]), chain.Wanted())[0]
    assert row.verdict is Verdict.FAIL
    assert "listener other: no such file; Envoy has no serving " in row.found


def verdicts(of: dump.Dump, *carriers: str) -> dict[str, Verdict]:
    return {row.name: row.verdict for row in chain.rows(of, chain.Wanted(carriers=carriers))}


def manager(tree: Tree) -> Tree:
    return tree["filter_chains"][1]["filters"][-1]["typed_config"]


@pytest.mark.parametrize("carrier", [NAME, "10.96.0.1:443"])
def test_the_merged_listener_is_well(carrier: str):
    assert set(verdicts(dumped(listener()), carrier).values()) == {Verdict.OK}


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_listener_for_any_address_carries_what_no_other_does(address: str):
    tree = listener()
    tree["address"]["socket_address"]["address"] = address
    assert verdicts(dumped(tree), "10.96.0.1:443")["listener"] is Verdict.OK
    assert verdicts(dumped(tree), "10.96.0.1:444")["listener"] is Verdict.FAIL


def test_without_knowing_the_way_nothing_is_said_of_the_listener():
    assert verdicts(dumped(listener()))["listener"] is Verdict.SKIPPED


def no_inspector(tree: Tree) -> None:
    del tree["listener_filters"]


def asked_twice(tree: Tree) -> None:
    filters = manager(tree)["http_filters"]
    filters.insert(0, copy.deepcopy(filters[0]))


def another_filter(tree: Tree) -> None:
    lua = {"name": "lua", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"}}
    manager(tree)["http_filters"].insert(1, lua)


def somebody_elses(tree: Tree) -> None:
    """Another authorizer and another rbac before ours, as an AuthorizationPolicy of Istio's makes them."""
    filters = manager(tree)["http_filters"]
    opa, rbac = (
        copy.deepcopy(filters[0]),
        {"name": "rbac", "typed_config": {"@type": filters[1]["typed_config"]["@type"]}},
    )
    opa["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] = "opa"
    filters[:0] = [opa, rbac]


def a_rival(tree: Tree) -> None:
    tree["filter_chains"].append({"filter_chain_match": {"server_names": ["kubernetes.default.svc"]}})


CLAMPING = istio.envoy_filter(options.MeshOptions(sidecar=replace(options.SIDECAR, clamp=True)))


def ext_proc() -> Tree:
    patches = [each["patch"]["value"] for each in CLAMPING["spec"]["configPatches"]]
    (patch,) = [each for each in patches if "filter_chains" in each]
    return copy.deepcopy(patch["filter_chains"][0]["filters"][-1]["typed_config"]["http_filters"][0])


def lowered_before(tree: Tree) -> None:
    manager(tree)["http_filters"].insert(0, ext_proc())


def lowered_after(tree: Tree) -> None:
    manager(tree)["http_filters"].insert(1, ext_proc())


def somebody_elses_processor(tree: Tree) -> None:
    theirs = ext_proc()
    theirs["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] = "theirs"
    manager(tree)["http_filters"].insert(0, theirs)


CASES = {
    "lowered-before-it-is-decided": (lowered_before, Verdict.OK),
    "lowered-afterwards": (lowered_after, Verdict.FAIL),
    "lowered-by-somebody-else": (somebody_elses_processor, Verdict.WARN),
    "no-tls-inspector": (no_inspector, Verdict.FAIL),
    "asked-twice": (asked_twice, Verdict.FAIL),
    "another-filter-between": (another_filter, Verdict.WARN),
    "somebody-elses-before": (somebody_elses, Verdict.WARN),
    "a-more-specific-chain": (a_rival, Verdict.WARN),
}


@pytest.mark.parametrize(("alter", "verdict"), CASES.values(), ids=CASES)
def test_what_others_put_beside_ours_is_told_in_the_order(alter, verdict: Verdict):
    tree = listener()
    alter(tree)
    assert verdicts(dumped(tree), NAME) | {"order": Verdict.OK} == dict.fromkeys(chain.NAMES, Verdict.OK)
    assert verdicts(dumped(tree), NAME)["order"] is verdict


def test_somebody_elses_rbac_does_not_stop_the_undecided():
    tree = listener()
    filters = manager(tree)["http_filters"]
    filters[1] = {"name": "rbac", "typed_config": {"@type": filters[1]["typed_config"]["@type"]}}
    assert verdicts(dumped(tree), NAME)["failure mode"] is Verdict.FAIL


def test_a_refused_update_of_our_own_listener_fails_though_an_older_one_is_in_force():
    assert verdicts(dumped(listener(), error="no such file"))["accepted"] is Verdict.FAIL


def test_a_refused_cluster_of_the_gate_fails():
    assert verdicts(dumped(listener(), cluster_error="no such file"))["accepted"] is Verdict.FAIL


def test_an_ext_authz_that_asks_somebody_else_is_not_ours():
    tree = listener()
    config = manager(tree)["http_filters"][0]["typed_config"]
    config["grpc_service"]["envoy_grpc"]["cluster_name"] = "opa"
    assert verdicts(dumped(tree), NAME)["chain"] is Verdict.FAIL

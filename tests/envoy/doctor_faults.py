"""Ways to break a rendered configuration, and which of the doctor's rows each must fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extauthz.tools.render.envoy import EXT_AUTHZ, RBAC
from tests.support.stack import unused_port


def manager(tree: dict[str, Any]) -> dict[str, Any]:
    return tree["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]


def routes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return manager(tree)["route_config"]["virtual_hosts"][0]["routes"]


def without_filters(tree: dict[str, Any]) -> None:
    """As if no EnvoyFilter selected this proxy: the chain passes all on."""
    manager(tree)["http_filters"][:-1] = []
    for route in routes(tree):
        route.pop("typed_per_filter_config", None)


def turned_round(tree: dict[str, Any]) -> None:
    first, second = manager(tree)["http_filters"][:2]
    manager(tree)["http_filters"][:2] = [second, first]


def ext_authz(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def alter(tree: dict[str, Any]) -> None:
        config = manager(tree)["http_filters"][0]["typed_config"]
        config.update(changes)
        for name, value in changes.items():
            if value is None:
                del config[name]

    return alter


def switched_off(tree: dict[str, Any]) -> None:
    manager(tree)["http_filters"][0]["disabled"] = True


def for_a_part(tree: dict[str, Any]) -> None:
    fraction = {"default_value": {"numerator": 50, "denominator": "HUNDRED"}}
    ext_authz(filter_enabled=fraction)(tree)


def without_rbac(tree: dict[str, Any]) -> None:
    del manager(tree)["http_filters"][1]
    for route in routes(tree):
        route.get("typed_per_filter_config", {}).pop(RBAC, None)


def half_bodies(tree: dict[str, Any]) -> None:
    ext_authz(with_request_body={"max_request_bytes": 8192, "allow_partial_message": True})(tree)


def impatient(tree: dict[str, Any]) -> None:
    manager(tree)["stream_idle_timeout"] = "300s"


def cut_reads(tree: dict[str, Any]) -> None:
    for route in routes(tree):
        if route["name"] == "read":
            route["route"]["timeout"] = "15s"


def without_scale(tree: dict[str, Any]) -> None:
    routes(tree)[:] = [route for route in routes(tree) if route["name"] != "scale"]


def scale_passes(tree: dict[str, Any]) -> None:
    off = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
    for route in routes(tree):
        if route["name"] == "scale":
            route["typed_per_filter_config"] = {EXT_AUTHZ: off, RBAC: off}


def twice(tree: dict[str, Any]) -> None:
    for route in routes(tree):
        if route["name"] == "scale":
            route["route"]["retry_policy"] = {"retry_on": "5xx", "num_retries": 2, "per_try_timeout": "65s"}


def endless(tree: dict[str, Any]) -> None:
    for route in routes(tree):
        if route["name"] == "scale":
            del route["route"]["max_stream_duration"]


FAULTS = {
    "chain-missing": (without_filters, ["chain", "listener"]),
    "wrong-order": (turned_round, ["order"]),
    "filter-switched-off": (switched_off, ["order"]),
    "a-part-of-the-requests": (for_a_part, ["order"]),
    "allows-on-outage": (ext_authz(failure_mode_allow=True), ["failure mode"]),
    "undecided-not-stopped": (without_rbac, ["failure mode"]),
    "empty-403-on-outage": (ext_authz(status_on_error=None), ["failure mode"]),
    "half-a-body": (half_bodies, ["request body"]),
    "no-body": (ext_authz(with_request_body=None), ["request body"]),
    "credentials-to-the-gate": (ext_authz(allowed_headers=None), ["headers"]),
    "scale-rule-missing": (without_scale, ["path rules"]),
    "scale-rule-passes": (scale_passes, ["path rules", "watches"]),
    "idle-watches-cut": (impatient, ["watches"]),
    "reads-cut": (cut_reads, ["watches"]),
    "retried-growth": (twice, ["growth timeouts"]),
    "growth-without-end": (endless, ["growth timeouts"]),
}


def without_certificate(folder: Path) -> Callable[[dict[str, Any]], None]:
    """The listener comes while Envoy runs, as istiod's do, and names a file of SDS that is not there. Another one is
    well."""

    def alter(tree: dict[str, Any]) -> None:
        (ours,) = tree["static_resources"]["listeners"]
        plain = {key: value for key, value in ours["filter_chains"][0].items() if key != "transport_socket"}
        other = ours | {"name": "other", "filter_chains": [json.loads(json.dumps(plain))]}
        ours["address"] = {"socket_address": {"address": "127.0.0.1", "port_value": unused_port()}}
        without_filters({"static_resources": {"listeners": [other]}})
        context = ours["filter_chains"][0]["transport_socket"]["typed_config"]["common_tls_context"]
        (secret,) = context["tls_certificate_sds_secret_configs"]
        secret["sds_config"]["path_config_source"]["path"] = str(folder / "gone.yaml")
        kind = "type.googleapis.com/envoy.config.listener.v3.Listener"
        resources = folder / "listeners.json"
        resources.write_text(json.dumps({"resources": [{"@type": kind} | each for each in (other, ours)]}))
        del tree["static_resources"]["listeners"]
        tree["node"] = {"id": "test", "cluster": "test"}
        tree["dynamic_resources"] = {"lds_config": {"path_config_source": {"path": str(resources)}}}

    return alter

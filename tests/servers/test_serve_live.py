"""``extauthz serve`` on a cluster, as a process: when it is ready, what it refuses, and what it says. The API server is
the stand-in: the real one neither stalls nor refuses at will."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from extauthz.demo.apiserver import Key
from extauthz.demo.processes import Child
from tests.controlplane.plane import free_ports, write_kubeconfig
from tests.support import objects
from tests.support.apireading import Fault
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.waiting import OutOfTimeError

from .running import QUOTAS, STATE, Running, ask, scale, within

WITHIN_S = 20.0
NAMESPACE, WEB = STATE["items"]
NAMESPACES = Key("", "namespaces", "", "shop")
DEPLOYMENT = Key("apps", "deployments", "shop", "web")
QUOTA = Key("extauthz.dev", "workspacequotas", "", "acme")


def quota(pods: int, name: str = "acme", **spec: Any) -> dict[str, Any]:
    hard = spec.pop("hard", {"pods": str(pods)})
    made = objects.quota(name, hard, {"workspace": "acme"}, **spec)
    return made | {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}}


def copied(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    authority = Authority(tmp_path)
    with ApiServer(authority.issue("apiserver")) as api:
        api.reading.bookmark_s = 0.2
        api.objects.put(NAMESPACES, copied(NAMESPACE), "ADDED")
        api.objects.put(DEPLOYMENT, copied(WEB), "ADDED")
        api.objects.put(QUOTA, quota(4), "ADDED")
        write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{api.port}", authority.ca, {"token": "t"})
        yield api


class Live(Running):
    """A gate that has quotas and state from the cluster."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        sources: tuple[str, str] = ("kubernetes", "kubernetes"),
        allow: str = "unclean-start",
        **numbers: float,
    ) -> None:
        super().__init__(directory, **numbers)
        quotas, state = sources
        cluster = (f"--kubeconfig={directory / 'kubeconfig'}", f"--allow-unknown={allow}")
        self.flags = self._flags = ("--quotas", quotas, "--state", state, "--grpc", "127.0.0.1:0", *cluster, *flags)


def test_growth_is_granted_up_to_a_quota_of_the_cluster(api, tmp_path):
    with Live(tmp_path) as gate:
        assert gate.allows(4)
        assert not gate.allows(5)
        api.objects.put(QUOTA, quota(5), "MODIFIED")
        assert within(WITHIN_S, lambda: gate.allows(5))
        grown = copied(WEB)
        grown["spec"]["replicas"] = 5
        api.objects.put(DEPLOYMENT, grown, "MODIFIED")
        assert within(WITHIN_S, lambda: not gate.allows(6))
        api.objects.remove(QUOTA)
        assert within(WITHIN_S, lambda: gate.allows(6))


@pytest.mark.parametrize("live", ["quotas", "state"])
def test_files_and_the_cluster_mix(api, tmp_path, live):
    (tmp_path / "q.yaml").write_text(QUOTAS % 7)
    (tmp_path / "s.json").write_text(json.dumps(STATE))
    quotas = "kubernetes" if live == "quotas" else str(tmp_path / "q.yaml")
    state = "kubernetes" if live == "state" else str(tmp_path / "s.json")
    most = 4 if live == "quotas" else 7
    with Live(tmp_path, sources=(quotas, state)) as gate:
        assert gate.allows(most)
        assert not gate.allows(most + 1)


def test_an_answered_write_is_settled_by_a_read_that_begins_after_w(api, tmp_path):
    with Live(tmp_path, "--window-s=1") as gate:
        assert gate.check(4).ok_response is not None
        assert "extauthz_intents 1.0" in gate.get("/metrics")[1]
        assert within(WITHIN_S, lambda: "extauthz_intents 0.0" in gate.get("/metrics")[1])
        page = gate.get("/metrics")[1]
        assert "extauthz_intents_ended_by_read_total 1.0" in page
        assert 'extauthz_reads_total{result="ok"} 1.0' in page
        assert any("fieldSelector=metadata.name%3Dweb" in one.target for one in api.seen)


def test_a_workload_that_no_watch_has_shown_is_looked_up_and_decided_once(api, tmp_path):
    with Live(tmp_path) as gate:
        api.objects.listeners.clear()  # from here on no watch is told of anything
        api.objects.remove(DEPLOYMENT)
        other = copied(WEB)
        other["metadata"]["name"] = "new"
        api.objects.put(DEPLOYMENT._replace(name="new"), other, "ADDED")
        response = ask_for("new", 4, gate)
        assert response.denied_response is not None
        assert "used: pods=6" in json.loads(response.denied_response.body)["message"]
        decisions = [line for line in gate.events("decision") if line["workload"] == "deployments.apps/shop/new"]
        assert within(5, lambda: len(gate.events("decision")) == 1), decisions


def ask_for(name: str, replicas: int, gate: Running) -> Any:
    http = scale(replicas)
    http.path = http.path.replace("/web/", f"/{name}/")
    with gate.channel() as channel:
        return ask(channel, http)


@pytest.mark.parametrize("growth", ["deny", "allow"])
def test_a_stalled_watch_is_noticed_and_growth_waits_or_not_as_told(api, tmp_path, growth):
    allow = "unclean-start stale" if growth == "allow" else "unclean-start"
    with Live(tmp_path, allow=allow, stale_after_s=1) as gate:
        assert gate.allows(4)
        assert "extauthz_stale 0.0" in gate.get("/metrics")[1]
        api.reading.bookmark_s = 3600.0
        assert within(WITHIN_S, lambda: gate.events("stale"))
        assert "nothing was heard of" in gate.events("stale")[0]["why"]
        assert "extauthz_stale 1.0" in gate.get("/metrics")[1]
        assert gate.allows(4) is (growth == "allow")
        said = json.loads(gate.check(5).denied_response.body)["message"]
        assert ("may be out of date: nothing was heard of" in said) is (growth == "deny"), said
        assert ("exceeded workspace quota: acme" in said) is (growth == "allow"), "what is not known is no quota denial"
        assert gate.allows(2), "less always passes"
        assert gate.get("/readyz")[0] == 200
        assert f"growth: {growth}" in gate.get("/readyz")[1]
        api.reading.bookmark_s = 0.2
        api.objects.put(Key("", "secrets", "shop", "s"), {"metadata": {"name": "s"}}, "ADDED")  # wakes the watches
        assert within(WITHIN_S, lambda: gate.events("fresh"))
        assert gate.allows(4)
        assert "extauthz_stale 0.0" in gate.get("/metrics")[1]


class Waiting:
    """A gate that is not ready yet. A context manager."""

    def __init__(self, directory: Path) -> None:
        self.gate = Live(directory)
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}/readyz"
        command = [sys.executable, "-m", "extauthz.cli", "serve", "--http", f"127.0.0.1:{port}", *self.gate.flags]
        self.child = Child(command, directory / "log")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()

    def page(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""


def test_it_is_ready_only_when_all_lists_are_in_and_says_what_it_waits_for(api, tmp_path):
    api.tokens = {"another"}
    with Waiting(tmp_path) as waiting:
        assert within(WITHIN_S, lambda: "401" in waiting.page()[1]), waiting.page()
        code, page = waiting.page()
        assert code == 503
        assert "not ready: workspacequotas.extauthz.dev has not been listed yet" in page
        assert waiting.gate.events("serving") == []
        assert within(WITHIN_S, lambda: waiting.gate.events("watch-failed"))
        assert "401" in waiting.gate.events("watch-failed")[0]["error"]
        api.tokens = None
        assert within(WITHIN_S, lambda: waiting.page() == (200, "ready\n")), waiting.page()


def test_it_is_not_ready_before_it_knows_which_custom_resources_there_are(api, tmp_path):
    """Any of them may use a quota, so nothing may grow before they are known."""
    api.reading.faults.append(Fault(200, only="customresourcedefinitions", then="hang"))
    with Waiting(tmp_path) as waiting:
        assert within(WITHIN_S, lambda: "deployments.apps" not in (page := waiting.page()[1]) and "not ready" in page)
        with pytest.raises(OutOfTimeError):
            within(6, lambda: waiting.gate.events("serving"))
        lacking = "not ready: customresourcedefinitions.apiextensions.k8s.io has not been listed yet"
        assert lacking in waiting.page()[1]


def test_a_stop_is_heeded_while_lists_are_waited_for(api, tmp_path):
    api.tokens = {"another"}
    with Waiting(tmp_path) as waiting:
        assert within(WITHIN_S, lambda: waiting.gate.events("watch-failed"))
        assert waiting.child.terminate() == 0


def test_a_bad_quota_takes_no_other_out_of_force_and_keeps_its_last_good_spec(api, tmp_path):
    other = QUOTA._replace(name="other")
    elsewhere = {"matchLabels": {"workspace": "other"}}
    api.objects.put(other, quota(9, "other", namespaceSelector=elsewhere, hard={"services": "1"}), "ADDED")
    with Live(tmp_path) as gate:
        assert gate.allows(4)
        assert not gate.allows(5)
        (line,) = gate.events("refused")
        assert line["problems"][0].startswith("WorkspaceQuota other: spec.hard.services")
        api.objects.put(QUOTA, quota(9, hard={"pods": "many"}), "MODIFIED")
        assert within(WITHIN_S, lambda: len(gate.events("refused")) == 2)
        assert gate.allows(4)
        assert not gate.allows(5)
        assert "WorkspaceQuota acme is not in force as written: spec.hard.pods" in gate.get("/readyz")[1]
        api.objects.put(QUOTA, quota(5), "MODIFIED")
        assert within(WITHIN_S, lambda: gate.allows(5))


def test_when_the_last_quota_goes_the_log_and_the_readiness_say_that_nothing_is_limited(api, tmp_path):
    with Live(tmp_path) as gate:
        assert not gate.allows(5)
        assert "no quota is in force" not in gate.get("/readyz")[1]
        api.objects.remove(QUOTA)
        assert within(WITHIN_S, lambda: gate.events("no-quotas"))
        assert gate.get("/readyz") == (200, "ready\nnote: no quota is in force: nothing is limited\n")
        assert gate.allows(5)


def test_a_ledger_in_memory_grants_no_growth_until_w_has_passed_and_all_was_listed_anew(api, tmp_path):
    with Live(tmp_path, "--ledger=memory", "--window-s=3", allow="") as gate:
        assert not gate.allows(4)
        assert gate.allows(2)
        assert "does not know" in gate.events("holding")[0]["why"]
        lists = len([one for one in api.seen if "/apis/apps/v1/deployments" in one.target])
        api.objects.listeners.clear()
        grown = copied(WEB)
        grown["spec"]["replicas"] = 4
        api.objects.put(DEPLOYMENT, grown, "MODIFIED")  # lands within W, and the watch does not tell
        assert within(WITHIN_S, lambda: gate.events("released"))
        assert len([one for one in api.seen if "/apis/apps/v1/deployments" in one.target]) > lists
        assert not gate.allows(5)
        assert gate.allows(4)


def test_the_status_of_a_quota_is_written_back(api, tmp_path):
    with Live(tmp_path):
        assert within(WITHIN_S, lambda: api.writes("/apis/extauthz.dev/v1alpha1/workspacequotas/acme/status"))

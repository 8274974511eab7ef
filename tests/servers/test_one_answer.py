"""Where a quota refuses, the command line, the page and the API say the same, and what they say helps.

Sixty states are drawn: quotas in a tree or beside it, what they lack, the workload, and what its HPA has heard so far.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import yaml
from aiohttp import web

from extauthz.cli import main
from extauthz.core import quantities
from extauthz.core.model import Verdict
from extauthz.core.queries import Queries
from extauthz.core.quota.spec import parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.questions import scaled
from extauthz.serve.servers.api.rights import ThisHost
from extauthz.serve.servers.api.routes import routes
from extauthz.tell.observe.observers import Report
from extauthz.testing import scale, workload
from tests.servers.paging import NAMESPACES, WEB, World
from tests.unit.ledger.houses import full

Tree = Any

STATES = 60
TARGET = 80
BEFORE = "the HPA controller was unable to update the target scale: "
WEBHOOK = 'admission webhook "workspacequotas.extauthz.dev" denied the request: '
LACK = re.compile(r"(\S+) of workspace quota (\S+) by ([^,\s]+)")


class Drawn(NamedTuple):
    """One state."""

    quotas: list[Tree]
    objects: list[Tree]
    hpa: Tree
    fits: int
    """Replicas of ``web``."""
    asked: int
    heard: str | None
    """What stands before our sentence in the HPA's condition; ``None``: it has not asked yet."""


def drawn(seed: int) -> Drawn:
    random = Random(seed)
    replicas, others = random.randint(1, 6), random.randint(0, 3)
    each = {"cpu": f"{random.choice((100, 250, 1000))}m", "memory": f"{random.choice((64, 256, 1024))}Mi"}
    mode = random.choice(("Enforce", "Enforce", "Clamp"))
    most = max(2 * replicas, 4)  # in one step (``calculateScaleUpLimit`` of the HPA controller)
    room = 0 if mode == "Clamp" else random.randint(0, min(2, most - replicas - 1))  # in mode Clamp a part is granted
    keys = {"pods": "1", **{f"requests.{name}": amount for name, amount in each.items()}}
    tight = random.sample(sorted(keys), random.randint(1, 3))

    def made(name: str, *, binds: bool, parent: str | None = None, covers: Tree = None, used: int) -> Tree:
        """A quota that has room for so many more in what is tight, if it binds, and for far more else."""
        counts = {key: used + (room if binds and key in tight else room + random.randint(20, 60)) for key in keys}
        hard = {key: quantities.format(count * quantities.parse(keys[key]), key) for key, count in counts.items()}
        spec = {"hard": hard, "mode": mode, **({"parent": parent} if parent else {})}
        if covers is not None:
            spec["namespaceSelector"] = {"matchLabels": covers}
        return {
            "apiVersion": "extauthz.dev/v1alpha1",
            "kind": "WorkspaceQuota",
            "metadata": {"name": name},
            "spec": spec,
        }

    own = {"workspace": "acme"}
    binds = [random.random() < 0.5 for _ in range(3)]
    binds[random.randrange(3)] = True
    quotas = [
        made("corp", binds=binds[0], covers={"workspace": "nobody"}, used=replicas + others),
        made("acme", binds=binds[1], parent="corp", covers=own, used=replicas + others),
        made("beside", binds=binds[2], covers={"kubernetes.io/metadata.name": "team-a"}, used=replicas),
    ]
    objects = [workload("web", replicas, each), workload("other", others, each, namespace="team-b")]
    asked = random.randint(replicas + room + 1, most)
    hpa = scaler(replicas, random.randint(asked, asked + 20), asked * TARGET // replicas)
    heard = random.choice((None, BEFORE, BEFORE + WEBHOOK))
    return Drawn(quotas, objects, hpa, replicas + room, asked, heard)


def scaler(replicas: int, most: int, percent: int) -> Tree:
    """An HPA of ``web`` whose cpu is at so many percent."""
    aim = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": TARGET}}
    now = {"name": "cpu", "current": {"averageUtilization": percent, "averageValue": "84m"}}
    reasons = {"AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web-hpa", "namespace": "team-a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": aim}],
        },
        "status": {
            "currentReplicas": replicas,
            "desiredReplicas": replicas,
            "currentMetrics": [{"type": "Resource", "resource": now}],
            "conditions": [{"type": one, "status": "True", "reason": reason} for one, reason in reasons.items()],
        },
    }


def named(name: str) -> Tree:
    labels = {"kubernetes.io/metadata.name": name, **NAMESPACES[name]}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


class Asked:
    """One state, at a gate that is served, and in files."""

    def __init__(self, state: Drawn, folder: Path) -> None:
        namespaces = {name: named(name)["metadata"]["labels"] for name in NAMESPACES}
        self.state, self.folder = state, folder
        self.world = World(*map(parse, state.quotas), objects=state.objects, namespaces=namespaces)
        if state.heard is not None:
            denied = self.world.write(scale("web", state.asked))
            condition = {"type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale"}
            state.hpa["status"]["conditions"][0] = condition | {"message": state.heard + denied.sentence}
        self.world.ask("web", state.asked)

    async def serve(self) -> AsyncIterator[Asked]:
        app = web.Application()
        app.add_routes(routes(lambda: self.world.answers, ThisHost()))
        async for _ in self.world.serve(app):
            yield self

    async def api(self, path: str, body: Tree = None) -> Tree:
        method = "GET" if body is None else "POST"
        async with self.world.client.request(method, f"/api/v1/{path}", json=body) as answer:
            return await answer.json()

    async def command(self, *words: str, capsys: pytest.CaptureFixture[str], files: bool = False) -> Tree:
        """What it prints as JSON, by the gate that is served, or by files."""
        places = {
            "state.yaml": [*map(named, NAMESPACES), *self.state.objects, self.state.hpa],
            "quotas.yaml": self.state.quotas,
        }
        state, quotas = [self._saved(name, trees) for name, trees in places.items()]
        where = ["--quotas", quotas] if files else ["--server", str(self.world.client.make_url("/"))]
        if files or words[0] == "explain":
            where += ["--state", state]
        capsys.readouterr()
        assert await asyncio.to_thread(main, [*words, "-n", "team-a", "-o", "json", *where]) == 1
        return json.loads(capsys.readouterr().out)

    def _saved(self, name: str, trees: list[Tree]) -> str:
        (self.folder / name).write_text(yaml.safe_dump_all(trees))
        return str(self.folder / name)


@pytest.mark.parametrize("seed", range(STATES))
async def test_where_a_quota_refuses_all_say_one_sentence_one_number_and_one_remedy_and_it_helps(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async for asked in Asked(drawn(seed), tmp_path).serve():
        state, world = asked.state, asked.world
        told = await asked.command("explain", "deploy/web", capsys=capsys)
        page = await world.get(WEB)
        decision = await asked.api("decisions", DECIDED | {"replicas": state.asked})
        headroom = await asked.api(f"{WEB.strip(chr(47))}/headroom")
        checked = await asked.command("check", "deploy/web", "--replicas", str(state.asked), capsys=capsys)
        by_files = await asked.command("explain", "deploy/web", capsys=capsys, files=True)

        assert " ".join(told["sentence"].split()) == by_files["sentence"]
        (answer,), (said,) = page.texts("p", "answer"), page.texts("td", "why")
        assert said == f"{' '.join(decision['sentence'].split())}an-autoscaler/1"
        assert (
            "may have no more" if state.fits == headroom["observedReplicas"] else f"may have {state.fits}"
        ) in answer
        assert decision["sentence"] == checked["sentence"] == told["quota"]["decision"]["sentence"]
        assert (decision["verdict"], told["quota"]["asked"], state.heard is None) == (
            "deny",
            state.asked,
            decision["sentence"] not in told["sentence"],
        )
        assert headroom == told["quota"]["headroom"]
        assert {headroom["replicas"], checked["fits"]} == {state.fits}
        (remedy,) = told["oneMore"]
        assert [remedy] == by_files["oneMore"]

        world.gate.load_quotas(QuotaTree.build(map(parse, raised(state.quotas, remedy["text"]))), 0.0)
        assert world.write(scale("web", state.asked)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("name", "has", "fits"), [("a", 4, 4), ("b", 1, 3), ("c", 3, 3)])
async def test_where_others_come_first_all_say_one_number(name: str, has: int, fits: int):
    """B waits for four GPUs, c for one; two are free."""
    house, world = full(), World()
    house.wants("b", 5)
    house.passes(10)
    house.has("c", 3)
    house.wants("c", 4)
    world.gate, world.write = house.gate, house.ask
    decide = lambda reading: house.gate.decide(reading, "q", house.ask.now_s, charge=False)  # noqa: E731
    world.answers = Answers(Queries(house.gate.ledger), decide, lambda: house.ask.now_s, world.recent)
    world.recent.decided(Report(house.wants(name, fits + 1), "", "an-autoscaler/1"))
    ref = house.ref(name)
    headroom = world.answers.headroom(ref)
    assert (headroom["replicas"], headroom["certain"]) == (fits, True)
    granted, denied = (world.answers.decision(scaled(ref, count)) for count in (fits, fits + 1))
    assert (granted["verdict"], denied["verdict"], denied["fits"]) == ("allow", "deny", fits)
    assert f"largest allowed replicas: {fits}" in denied["sentence"]
    async for _ in world.serve():
        page = await world.get(f"/namespaces/{name}/workloads/deployments.apps/{name}")
        (answer,) = page.texts("p", "answer")
        assert ("may have no more" if fits == has else f"may have {fits}") in answer
        assert "not known" not in "".join(page.texts("main"))
        (facts,) = (await world.get(f"/quotas/{name}")).texts("p", "facts")
        assert facts.startswith(f"has {has}, wants {fits + 1}, {'no more' if fits == has else fits} would fit")


DECIDED = {"namespace": "team-a", "resource": "deployments.apps", "name": "web"}


def raised(quotas: list[Tree], remedy: str) -> list[Tree]:
    """By what the remedy says."""
    lacks = LACK.findall(remedy)
    assert lacks
    for resource, name, amount in lacks:
        (hard,) = [one["spec"]["hard"] for one in quotas if one["metadata"]["name"] == name]
        hard[resource] = quantities.format(quantities.parse(hard[resource]) + quantities.parse(amount), resource)
    return quotas

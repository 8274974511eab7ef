"""What ``explain`` predicts for a PodAutoscaler is what Knative's real autoscaler does, look by look: random ones, all
at once, in both generations, with writes that are refused.

What the autoscaler measures it tells in its log only; each line is a look that is held against a prediction.
``EXTAUTHZ_SEED`` makes the cases of an earlier run again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.cli import explain_cluster
from extauthz.explain import when
from extauthz.explain.knative import scene
from extauthz.explain.knative.decide import Answer, decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.objects import Objects
from tests.controlplane import knative, kpacases
from tests.controlplane.access import service_account
from tests.controlplane.activator import Activator
from tests.controlplane.knative import AUTOSCALER
from tests.controlplane.kpacases import PLACE
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.e2e.clamping import Watched
from tests.waiting import eventually

Tree = Any

SEED = os.environ.pop("EXTAUTHZ_SEED", "") or str(random.SystemRandom().randrange(1 << 32))
KPAS = 24
TURNS, TURN_S = 50, 1.0
QUIET_S = 4.0
HELD = 4
"""Of so many replicas a workload named ``held-…`` gets no more."""
MOST_S = 3.5
"""Two looks further apart than that do not follow each other."""
SHOWN = 8
IN_TIME = "at zero in time"
AGREEMENT = 0.99
"""On a busy machine the autoscaler may be late with what it has decided."""
LOOK = re.compile(
    r"observed values: stable = ([\d.]+); panic = ([\d.]+); target = ([\d.]+) Desired StablePodCount = (\d+), "
    r"PanicPodCount = (\d+), ReadyEndpointCount = (\d+)"
)
WISH = re.compile(r"^Scaling from (\d+) to (-?\d+)")
POLICY = "admissionregistration.k8s.io/v1"


class Look(NamedTuple):
    """A line of the autoscaler's log."""

    name: str
    at: float
    stable: float
    panic: float
    counts: tuple[int, int]
    ready: int


class Told(NamedTuple):
    """All that its log told."""

    looks: dict[str, list[Look]]
    wishes: dict[str, list[tuple[float, int]]]
    """When it asked for which count of replicas."""


class Running(NamedTuple):
    plane: Plane
    config: dict[str, str]
    log: Path
    activator: Activator


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running_plane() as running:
        running.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}})
        token = service_account(running, "default", "owner", "cluster-admin")
        write_kubeconfig(running.folder / "owner", running.url, running.ca, {"token": token})
        hold(running)
        yield running


@pytest.fixture(scope="module", params=knative.versions("autoscaler"))
def running(
    plane: Plane, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """One generation that says what it measures."""
    folder = tmp_path_factory.mktemp(request.param)
    chance = random.Random(f"{SEED}/{request.param}")
    config = kpacases.config(chance) | {"stable-window": "6s", "scale-to-zero-grace-period": "6s"}
    more = {"config-autoscaler": config, "config-logging": {"loglevel.autoscaler": "debug"}}
    with knative.running_autoscaler(plane, request.param, plane.url, folder, more) as child, Activator() as activator:
        yield Running(plane, knative.QUICK["config-autoscaler"] | config, child.log, activator)


def hold(plane: Plane) -> None:
    """The API server itself refuses what a quota would."""
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    resources = {"resources": ["deployments", "deployments/scale"]}
    policy = {
        "apiVersion": POLICY,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "held"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule | resources]},
            "validations": [
                {"expression": f"!object.metadata.name.startsWith('held') || object.spec.replicas <= {HELD}"}
            ],
        },
    }
    binding = {"policyName": "held", "validationActions": ["Deny"]}
    plane.api.call("POST", f"/apis/{POLICY}/validatingadmissionpolicies", policy)
    tree = {
        "apiVersion": POLICY,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "held"},
        "spec": binding,
    }
    plane.api.call("POST", f"/apis/{POLICY}/validatingadmissionpolicybindings", tree)


def test_each_look_of_the_autoscaler_ends_as_predicted(running: Running, capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        print(f"\n{KPAS} PodAutoscalers by EXTAUTHZ_SEED={SEED}, config-autoscaler {running.config}")
    eventually(lambda: running.plane.api.serves(AUTOSCALER))
    watched = {
        "PodAutoscaler": Watched(running.plane, AUTOSCALER, PLACE),
        "Deployment": Watched(running.plane, "Deployment", PLACE),
        "Event": Watched(running.plane, "Event.v1", PLACE),
    }
    prefix = running.log.stem.partition("-")[2].replace(".", "-")
    with ThreadPoolExecutor(8) as workers:
        names = list(workers.map(lambda number: create(running.plane, number, prefix), range(KPAS)))
    eventually(lambda: watched["PodAutoscaler"].is_quiet(QUIET_S))
    begun = time.time()
    drive(running, names)
    told = read(running.log, begun)
    time.sleep(1.0)
    tally, wrong = Counter[str](), list[str]()
    for name in names:
        for one, following in zip(told.looks.get(name, []), told.looks.get(name, [])[1:], strict=False):
            wrong += judged(tally, running, watched, one, following, told)
        wrong += late(tally, running, watched, told.looks.get(name, []))
    with capsys.disabled():
        print(", ".join(f"{key}: {count}" for key, count in sorted(tally.items())))
        print(*wrong, sep="\n")
    assert tally["certain, agrees"] >= AGREEMENT * tally["certain"], "\n".join(wrong[:SHOWN])
    assert tally["certain"] > 2 * KPAS, "hardly anything was called certain"
    assert tally["certain, refused"] + tally["likely, refused"], "no write was refused"
    read_alike(running, watched, names[:SHOWN])


def create(plane: Plane, number: int, prefix: str) -> str:
    """A PodAutoscaler with its Deployment and some pods that are ready."""
    chance = random.Random(f"{SEED}/{prefix}/{number}")
    name = f"{'held' if number % 4 == 0 else 'case'}-{prefix}-{number}"
    tree = kpacases.autoscaler(name, chance)
    # The activator stays in the path: nothing waits for a network, and no pod is asked what it measures.
    notes = tree["metadata"]["annotations"]
    notes[f"{kpacases.GROUP}/target-burst-capacity"] = "-1"
    if name.startswith("held"):
        notes[f"{kpacases.GROUP}/max-scale"], notes[f"{kpacases.GROUP}/target"] = "0", "10"
    replicas, pods = chance.choice([0, 1, 1, 3]), chance.choice([0, 1, 1, 2, 4])
    if name.startswith("held"):  # from there one step, at any rate, is too many
        replicas = pods = HELD
    deployment = knative.revision(PLACE, name, {"cpu": "1"}, replicas=replicas)[0]
    plane.api.create(deployment)
    for index in range(pods):
        add_pod(plane, deployment, f"{name}-{index}")
    plane.api.create(tree)
    knative.await_service(plane.api, PLACE, name)
    return name


def add_pod(plane: Plane, deployment: Tree, name: str) -> None:
    template = deployment["spec"]["template"]
    metadata = {"name": name, "namespace": PLACE, "labels": template["metadata"]["labels"]}
    plane.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    ready = [{"type": "Ready", "status": "True"}]
    plane.api.patch("Pod", name, PLACE, {"status": {"phase": "Running", "conditions": ready}}, sub="status")


def drive(running: Running, names: list[str]) -> None:
    """Traffic that rises and falls; pods come. Those that are held get much at first. A few at a time: the autoscaler
    sends 10 requests a second at most, and is late with what it has decided if there is more to do."""
    chance = random.Random(f"{SEED}/traffic")
    held = iter([name for name in names if name.startswith("held")])
    for turn in range(TURNS):
        name, load = chance.choice(names), chance.choice([0, 0, 1, 2.5, 10, 64, 100, 250, 700])
        if (first := next(held, None)) is not None:
            name, load = first, 700
        running.activator.concurrent[PLACE, name] = load
        if chance.random() < 0.2:
            other = chance.choice(names)
            add_pod(running.plane, running.plane.api.get("Deployment", other, PLACE), f"{other}-t{turn}")
        time.sleep(TURN_S)


def read(log: Path, begun: float) -> Told:
    """By PodAutoscaler, in order, since then."""
    looks: dict[str, list[Look]] = {}
    wishes: dict[str, list[tuple[float, int]]] = {}
    for text in log.read_text(errors="replace").splitlines():
        if not text.startswith("{"):
            continue
        line = json.loads(text)
        name = str(line.get("knative.dev/key", "")).rpartition("/")[2]
        message = line.get("message", "")
        if not name or not message.startswith(("For metric", "Scaling from")):
            continue
        at = datetime.fromisoformat(line["timestamp"]).timestamp()
        if at < begun:
            continue
        if match := LOOK.search(message):
            stable, panic, _, first, second, ready = match.groups()
            one = Look(name, at, float(stable), float(panic), (int(first), int(second)), int(ready))
            looks.setdefault(name, []).append(one)
        elif match := WISH.search(message):
            wishes.setdefault(name, []).append((at, int(match[2])))
    return Told(looks, wishes)


def known(running: Running, watched: dict[str, Watched], name: str, ready: int, at: float) -> scene.Scene | None:
    """What the cluster told at that time; the pods are those that the autoscaler counted."""
    trees = {kind: one.at(name, at) for kind, one in watched.items() if kind != "Event"}
    if None in trees.values():
        return None
    events = [one for one in watched["Event"].until(at) if one["involvedObject"]["name"] == name]
    tree = trees["PodAutoscaler"]
    tree = tree | {"status": (tree.get("status") or {}) | {"actualScale": ready}}
    objects = [tree, trees["Deployment"], kpacases.config_map(running.config)]
    found = Objects([*objects, *(one | {"kind": "Event"} for one in events)], [scene.EVENT])
    return scene.of(found, tree, at)


def judged(
    tally: Counter[str], running: Running, watched: dict[str, Watched], one: Look, following: Look, told: Told
) -> list[str]:
    """What is wrong with the prediction for a look, if anything: until the next look it must have come true."""
    before, then = (known(running, watched, one.name, one.ready, at) for at in (one.at, following.at))
    if before is None or then is None or not 0.5 < following.at - one.at < MOST_S:
        tally["skipped: looks that do not follow each other"] += 1
        return []
    values = Values(one.stable, one.panic)
    answer, later = (decide(scene.of(before.objects, before.autoscaler, at), values) for at in (one.at, following.at))
    if (answer.scale, answer.outcome, answer.certain) != (later.scale, later.outcome, later.certain):
        tally["skipped: time alone changes it"] += 1
        return []
    aim = before.rules.target
    if one.counts != tuple(-int(-value // aim) for value in values[:2]):
        tally["skipped: the log rounds its values"] += 1
        return []
    tried = [count for at, count in told.wishes.get(one.name, []) if one.at - 0.05 < at < following.at]
    if one.ready != following.ready:
        tally["skipped: its pods changed"] += 1
        return []
    if one.name.startswith("held") and answer.scale > HELD:
        if not tried:
            tally["skipped: refused, and not tried again yet"] += 1
            return []
        return counted(tally, one, answer, tried[-1], "refused")
    return counted(tally, one, answer, then.scale, answer.outcome)


def late(tally: Counter[str], running: Running, watched: dict[str, Watched], looks: list[Look]) -> list[str]:
    """Where it is said when it is at zero at the latest, and nothing asked for it meanwhile: whether it was then."""
    wrong = list[str]()
    for number, one in enumerate(looks):
        if (before := known(running, watched, one.name, one.ready, one.at)) is None:
            continue
        answer = decide(before, Values(one.stable, one.panic))
        told = when.of_knative(before, answer)
        if answer.outcome != "zero-waits" or told.seconds is None or told.text.startswith("probably"):
            continue
        end = one.at + told.seconds + MOST_S
        if looks[-1].at < end or any(each.stable or each.panic for each in looks[number:] if each.at <= end):
            tally["skipped: asked for before it was at zero"] += 1
            continue
        then = known(running, watched, one.name, one.ready, end)
        wrong += counted(tally, one, replace(answer, scale=0), then.replicas, IN_TIME)
    return wrong


def counted(tally: Counter[str], one: Look, answer: Answer, real: int, what: str) -> list[str]:
    word = "certain" if answer.certain else "likely"
    right = answer.scale == real
    tally[word] += 1
    tally[f"{word}, agrees"] += right
    tally[f"outcome {answer.outcome}"] += 1
    if what in ("refused", IN_TIME):
        tally[f"{word}, {what}"] += 1
    if right or not answer.certain:
        return []
    return [f"{one}: {answer.outcome} {answer.scale}, not {real}\n    " + "\n    ".join(map(str, answer.steps))]


def read_alike(running: Running, watched: dict[str, Watched], names: list[str]) -> None:
    """The command reads the same of a cluster as the test does."""
    for name in names:
        found = asyncio.run(explain_cluster.read(running.plane.folder / "owner", PLACE, "kpa", name))
        tree = found.one("PodAutoscaler", PLACE, name)
        own = scene.of(found, tree, time.time())
        other = known(running, watched, name, own.ready, time.time())
        assert (own.rules, own.replicas, own.ready_known) == (other.rules, other.replicas, True), name
        assert {one.replicas for one in own.refused} == {one.replicas for one in other.refused}

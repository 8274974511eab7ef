"""What ``explain`` makes of a PodAutoscaler is what Knative's own decider makes of it: thousands of looks, no cluster.

``EXTAUTHZ_SEED`` makes the cases of an earlier run again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from typing import Any

import pytest

from extauthz.explain.knative import rules, scene
from extauthz.explain.knative.decide import decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.knative.rules import Rules
from extauthz.explain.objects import Objects
from tests.controlplane import knative, kpacases, parts

Tree = Any

SEED = os.environ.pop("EXTAUTHZ_SEED", "") or str(random.SystemRandom().randrange(1 << 32))
CASES = 500
NOW = 1_800_000_000.0
LONG_AGO = "2020-01-01T00:00:00Z"
SHOWN = 5


def questions() -> list[Tree]:
    found = []
    for number in range(CASES):
        chance = random.Random(f"{SEED}/{number}")
        data, tree = kpacases.config(chance), kpacases.autoscaler(f"case-{number}", chance)
        objects = Objects([kpacases.config_map(data)])
        target = rules.of(tree, rules.config_of(objects)).target
        found.append({"Autoscaler": tree, "Config": data, "Looks": kpacases.looks(target, chance)})
    return found


@pytest.fixture(scope="module", params=knative.versions("decider"))
def answered(request: pytest.FixtureRequest) -> list[tuple[Tree, Tree]]:
    """Questions with the answers of one version. A config map that the autoscaler refuses is none."""
    asked = questions()
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    binary = parts.find(f"decider-{request.param}")
    done = subprocess.run([str(binary)], input=lines, capture_output=True, text=True, check=True, timeout=120)
    both = zip(asked, map(json.loads, done.stdout.splitlines()), strict=True)
    return [(question, answer) for question, answer in both if not answer["Error"]]


def objects_at(question: Tree, scale: int | None, ready: int) -> Objects:
    """What the cluster would tell before a look."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO}
        for kind in ("Active", "ScaleTargetInitialized")
    ]
    status = {"actualScale": ready, "conditions": conditions}
    name = question["Autoscaler"]["metadata"]["name"]
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": kpacases.PLACE},
        "spec": {"replicas": 1},
    }
    tree = question["Autoscaler"] | {"status": status if scale is None else status | {"desiredScale": scale}}
    return Objects([kpacases.config_map(question["Config"]), deployment, tree], [scene.EVENT])


def read(question: Tree, scale: int | None = None, ready: int = 1) -> scene.Scene:
    objects = objects_at(question, scale, ready)
    return scene.of(objects, next(iter(objects.of("PodAutoscaler"))), NOW)


def test_annotations_and_config_map_are_read_as_knative_reads_them(answered: list[tuple[Tree, Tree]]):
    assert len(answered) > CASES / 2
    for question, answer in answered:
        own = read(question).rules
        found = {
            "Target": own.target, "Total": own.total, "Least": own.least, "Most": own.most, "Initial": own.initial,
            "StableS": own.stable_window_s, "PanicS": own.panic_window_s, "DelayS": own.delay_s,
            "Activation": own.activation,
        }  # fmt: skip
        assert found == {key: answer[key] for key in found}, question


def test_what_is_called_certain_is_what_the_decider_does(
    answered: list[tuple[Tree, Tree]], capsys: pytest.CaptureFixture[str]
):
    tally, wrong = Counter[str](), []
    for question, answer in answered:
        scale = None
        for look, count in zip(question["Looks"], answer["Counts"], strict=True):
            known = read(question, scale, look["Ready"])
            found = decide(known, Values(look["Stable"], look["Panic"]))
            scale = written(known.rules, count)
            word = "certain" if found.certain else "likely"
            tally[word] += 1
            tally[f"{word}, agrees"] += found.scale == scale
            tally[f"outcome {found.outcome}"] += 1
            if found.certain and found.scale != scale:
                wrong.append(f"{json.dumps(look)}: {found.scale}, not {scale}\n  {question}\n  {found.steps}")
    with capsys.disabled():
        print(f"\n{CASES} PodAutoscalers by EXTAUTHZ_SEED={SEED}")
        print(", ".join(f"{key}: {count}" for key, count in sorted(tally.items())))
    assert not wrong, "\n".join(wrong[:SHOWN])
    assert 2 * tally["certain"] > tally["likely"], "hardly anything was called certain"


def written(own: Rules, count: int) -> int:
    """What its status then says."""
    most = own.most or count
    bounded = own.least if count < own.least else min(count, most)  # the minimum comes first, if it is the larger one
    return bounded if bounded > 0 or own.to_zero else 1

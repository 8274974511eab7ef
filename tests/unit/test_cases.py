"""Public reports as cases: each command gives the right value.

Whitespace in what a command prints counts as one space. Where a case has ``groups.yaml``, ``GROUPS`` stands for it as
``--pod-groups`` takes it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from extauthz.cli import main

CASES = Path(__file__).parents[1] / "data" / "cases"
HOUR_S = 3600


class Case(NamedTuple):
    """A command in the folder of a case, and what is right."""

    folder: str
    command: str
    code: int
    says: Sequence[str]
    """Regular expressions."""
    never: Sequence[str] = ()


HPA = "explain hpa/web -n shop --state"
KEDA = "explain scaledobject/worker -n shop --state"
RIGHT = [
    Case(
        "02-lws-hpa-selector",
        "explain hpa/big -n llm --state state.yaml",
        0,
        ["goes from 2 to 4 replicas", r"a ratio of 1\.9"],
        ["no selector"],
    ),
    Case(
        "02-lws-hpa-selector",
        "explain hpa/big -n llm --state state.yaml --quotas quotas.yaml --pod-groups GROUPS",
        1,
        ["The quota does not allow it", r"nvidia\.com/gpu=48"],
        ["does not know what one of its pods costs"],
    ),
    Case(
        "03-rollout-hpareplicas",
        f"{HPA} state.yaml --quotas quotas.yaml",
        1,
        ["from 10 to 13 replicas", "12 of the 40 replicas"],
        ["16", "20 replicas"],
    ),
    Case("03-rollout-hpareplicas", f"{HPA} crd-last.yaml --quotas quotas.yaml", 1, ["12 of the 40 replicas"]),
    Case(
        "04-share-adopts-status",
        f"{HPA} state.yaml",
        0,
        ["goes from 10 to 13 replicas: its status has 13", "takes the 13 replicas of the scale's status"],
        ["the count stays 10"],
    ),
    Case(
        "05-keda-refused-by-event",
        f"{KEDA} state.yaml",
        1,
        [
            "is refused: KEDA asks for 1 in place of 0",
            "exceeded workspace quota: acme",
            "for what it asks for: - raise .* of workspace quota acme by",
        ],
        ["goes from 0 to 1 "],
    ),
    *(
        Case("06-keda-not-ready", f"{KEDA} {name}.yaml", 1, ["Ready is False", "failed to ensure HPA is correctly"])
        for name in ("state", "zero")
    ),
    Case("07-keda-error-with-fallback-at-zero", f"{KEDA} state.yaml", 0, ["probably", "likely: "], ["certain: "]),
    Case("08-count-pods-finished", "top --quotas quotas.yaml --state state.json", 0, ["pods 1 ", "count/pods 7 "]),
    *(
        Case(
            "10-raycluster-max",
            f"check -f {name}.yaml --custom rayclusters.ray.io --state crd.yaml --quotas quotas.yaml "
            "--pod-groups GROUPS",
            0,
            ["^allow"],
        )
        for name in ("cluster", "no-count")
    ),
    Case(
        "11-hpa-min-zero",
        "explain hpa/consumer -n shop --state state.yaml",
        0,
        ["goes from 0 to 4 replicas", "make 4 of 7"],
        ["turn(s|ed) it off"],
    ),
    Case("12-explain-time-is-mtime", f"{HPA} hpa.json", 1, ["stays at 2 replicas"]),
    Case("12-explain-time-is-mtime", f"{HPA} hpa.json --now 2026-11-28T12:59:00Z", 0, ["goes from 2 to 4"]),
    Case("12-explain-time-is-mtime", f"{KEDA} keda.yaml", 1, ["cooldownPeriod", "440 s from now"]),
    Case("12-explain-time-is-mtime", f"{KEDA} keda.yaml --now 2026-11-27T11:00:00Z", 0, ["goes from 2 to 0"]),
    Case(
        "13-hpa-succeeded-pods",
        f"{HPA} state.json",
        1,
        ["probably stays at 4 replicas", "6 of them have finished", "delete the 6 pods that have finished: 7 replicas"],
        ["cpu at 140 %"],
    ),
    Case("14-job-failed-indexes", "top batch --quotas quotas.yaml --state state.json", 0, ["night/render 1 1 1"]),
    Case("16-hpa-pod-level-memory", f"{HPA} state.json", 0, ["goes from 4 to 7 replicas", "cpu is 80 %"]),
    Case("19-check-dir-comment-only", "check -f m --quotas quotas.yaml --state state.yaml", 0, ["^allow .*shop/side"]),
    Case(
        "20-crd-manifest-without-status",
        "check -f rollout.yaml --custom rollouts.argoproj.io --quotas quotas.yaml --state state.yaml",
        0,
        [r"^allow rollouts\.argoproj\.io"],
    ),
    Case(
        "21-hpa-two-failing-metrics",
        f"{HPA} state.json",
        1,
        ["Resource cpu fails: the condition names only the first metric that fails"],
        ["Resource cpu fails: FailedGetExternalMetric"],
    ),
    Case("22-hpa-target-missing", f"{HPA} hpa.json", 1, ["AbleToScale is False", "FailedGetScale", 'apps "web" not']),
    Case("22-hpa-target-missing", f"{KEDA} scaledobject.json", 1, ["Ready is False", "correct scaleTargetRef"]),
    *(
        Case("24-share-ratio-nan", f"{HPA} {name}.json", 1, ["no pods yet, so there is no ratio"], [r"\b(nan|inf)\b"])
        for name in ("state", "inf")
    ),
    Case(
        "25-jobset-completions",
        "check -f jobs.yaml --state state.yaml --quotas quotas.yaml --pod-groups GROUPS",
        2,
        [r"allow jobsets\.jobset\.x-k8s\.io shop/sweep", "not weighed Pod shop/bare", "not weighed CronJob.* shop/cj"],
    ),
    Case(
        "26-check-silent-custom",
        "check -f rollout.yaml --quotas quotas.yaml --state state.yaml",
        2,
        [r"^not weighed Rollout\.argoproj\.io shop/\w+: .*--custom rollouts\.argoproj\.io"],
    ),
    Case(
        "27-other-podautoscaler",
        "explain deploy/qwen -n llm --state state.yaml",
        2,
        [r"PodAutoscaler\.autoscaling\.aibrix\.ai qwen-apa"],
        ["kpa/"],
    ),
    Case(
        "28-kpa-initial-above-max",
        "explain kpa/hello-1 -n shop --state state.json --at concurrency=0",
        1,
        ["initial-scale 10 has not been reached once"],
        ["min-scale 0 allows no less"],
    ),
    Case("29-hpa-odd-input", f"{HPA} v2beta1.json", 2, [r"autoscaling/v2beta1", r"kubectl get hpa\.v2\.autoscaling"]),
    Case("29-hpa-odd-input", f"{HPA} nullts.json", 0, ["goes from 2 to 4 replicas"]),
    Case(
        "29-hpa-odd-input",
        f"{HPA} disabled.json",
        1,
        [r"scaling down is switched off \(behavior\.scaleDown\.selectPolicy: Disabled\)"],
        ["window keeps it"],
    ),
    *(
        Case(
            "admin-04-check-f-green-without-weighing",
            f"check -f {name}.yaml -n a --quotas q.yaml --state s.yaml",
            2,
            [f"not weighed {kind} "],
        )
        for name, kind in (
            ("isvc", r"InferenceService\.serving\.kserve\.io"),
            ("ksvc", r"Service\.serving\.knative\.dev"),
            ("pytorchjob", r"PyTorchJob\.kubeflow\.org"),
            ("ray", r"RayCluster\.ray\.io"),
            ("rayjob", r"RayJob\.ray\.io"),
            ("mixed", r"DaemonSet\.apps"),
        )
    ),
    Case(
        "admin-07-check-f-claim-template-in-same-file",
        "check -f m.yaml --quotas q.yaml --state s.yaml",
        0,
        [r"^allow deployments\.apps a/w, new, 3"],
    ),
    Case(
        "admin-11-jobset-parallelism-above-completions",
        "check -f m.yaml -n a --custom jobsets.jobset.x-k8s.io --config groups.yaml --quotas q.yaml --state s.yaml",
        0,
        ["^allow"],
    ),
    Case("admin-14-json-documents-in-a-yaml-file", "top --quotas jsondocs.yaml --state s.yaml", 0, ["a2y"]),
]


def words(case: Case) -> list[str]:
    groups = CASES / case.folder / "groups.yaml"
    if "GROUPS" not in case.command:
        return case.command.split()
    text = json.dumps(yaml.safe_load(groups.read_text())["pod-groups"])
    return [text if word == "GROUPS" else word for word in case.command.split()]


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: f"{case.folder}: {case.command.partition(' -n')[0][:50]}")
def test_each_public_report_gets_its_right_answer(case, monkeypatch, capsys):
    monkeypatch.chdir(CASES / case.folder)
    assert main(words(case)) == case.code
    told = " ".join("".join(capsys.readouterr()).split())
    for right in case.says:
        assert re.search(right, told), (right, told)
    for wrong in case.never:
        assert not re.search(wrong, told), (wrong, told)


def test_the_same_file_gives_the_same_answer_whenever_it_was_copied(tmp_path, monkeypatch, capsys):
    told = set()
    for name, command in (("hpa.json", HPA), ("keda.yaml", KEDA)):
        copy = tmp_path / name
        copy.write_bytes((CASES / "12-explain-time-is-mtime" / name).read_bytes())
        for hours in (0, 2, 200):
            os.utime(copy, (hours * HOUR_S, hours * HOUR_S))
            main([*command.split(), str(copy)])
            told.add((name, capsys.readouterr().out))
    assert len(told) == 2

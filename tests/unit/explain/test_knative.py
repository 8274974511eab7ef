"""A PodAutoscaler's next count. (Held against Knative's own decider: tests/controlplane/test_decider.py.)"""

from __future__ import annotations

import pytest

from extauthz.explain.knative import rules
from extauthz.explain.knative.decide import decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.knative.sentence import REASONS, changes, sentence
from extauthz.explain.objects import ExplainError, Objects
from tests.unit.explain.knativebuilding import config, decided, kpa, look, refusal

WEBHOOK = 'admission webhook "workspacequotas.extauthz.dev" denied the request: '
AMOUNTS = "requested: pods=2, used: pods=2, limited: pods=3; largest allowed replicas: 3"


@pytest.mark.parametrize(
    ("tree", "value", "expected"),
    [
        (kpa(), 10, (1, "on-target", True)),
        (kpa(), 10.1, (2, "scales-up", True)),
        (kpa(max_scale="3"), 55, (3, "scales-up", True)),
        (kpa(scale=3, max_scale="3"), 55, (3, "max-scale", True)),
        (kpa(scale=2, min_scale="2"), 10, (2, "min-scale", True)),
        (kpa(scale=5), 10, (1, "scales-down", False)),
        (kpa(activation_scale="4"), 10, (4, "scales-up", True)),
        (kpa(scale=0, ready=0, activation_scale="4"), 0, (0, "idle", True)),
        (kpa(ran=False, ready=0, initial_scale="3"), 10, (3, "scales-up", True)),
        (kpa(ran=False, ready=3, initial_scale="3"), 10, (1, "on-target", False)),
    ],
)
def test_what_a_value_comes_to(tree, value, expected):
    replicas = {"on-target": 1, "max-scale": 3, "min-scale": 2, "scales-down": 5, "idle": 0}.get(expected[1], 1)
    answer = decided(tree, value, replicas=replicas)
    assert (answer.desired, answer.outcome, answer.certain) == expected


def test_a_threshold_that_is_just_met_is_panic():
    answer = decided(kpa(), 10, panic=20)
    assert (answer.desired, answer.certain) == (2, True)
    assert not decided(kpa(), 10, config(panic_threshold_percentage="201"), panic=20).certain


def test_a_rate_that_is_just_above_one_still_allows_one_more():
    slow = config(max_scale_up_rate="1.1", panic_threshold_percentage="1000")
    assert decided(kpa(), 95, slow).desired == 2


def test_what_no_route_reaches_goes_down_at_once():
    tree = kpa(scale=8, ready=8)
    tree["spec"]["reachability"] = "Unreachable"
    assert decided(tree, 10, replicas=8, panics=False).desired == 1


def test_rates_go_by_the_pods_that_are_ready():
    up = config(max_scale_up_rate="2", panic_threshold_percentage="1000")
    answer = decided(kpa(scale=2, ready=2), 95, up, replicas=4)
    assert (answer.desired, answer.outcome) == (4, "up-rate")
    answer = decided(kpa(scale=8, ready=8), 0, replicas=4, panics=False)
    assert (answer.desired, answer.outcome, answer.certain) == (4, "down-rate", True)
    assert "with 8 ready, max-scale-up-rate 1000 allows at most 8000" in answer.steps[1].text


class TestMemory:
    def test_panic_mode_keeps_the_count_that_it_came_to(self):
        answer = decided(kpa(scale=6, ready=6), 20, panics=True, replicas=6)
        assert (answer.desired, answer.outcome, answer.certain) == (6, "remembered", False)

    def test_out_of_panic_mode_nothing_is_remembered(self):
        answer = decided(kpa(scale=6, ready=6), 40, panics=False, replicas=6)
        assert (answer.desired, answer.certain) == (4, True)

    def test_a_panic_that_begins_goes_by_the_larger_window(self):
        answer = decided(kpa(), 10, panic=50)
        assert (answer.desired, answer.certain) == (5, True)
        assert "panic mode, which never scales down" in answer.steps[1].text

    def test_without_events_a_refused_write_may_be_remembered(self):
        assert decided(kpa(), 15).certain
        assert not decided(kpa(), 15, asked=()).certain

    def test_a_refused_write_may_be_remembered(self):
        assert not decided(kpa(), 15, refusal(8)).certain
        assert decided(kpa(), 75, refusal(8)).certain
        assert decided(kpa(), 15, refusal(8, name="other")).certain

    def test_at_its_maximum_more_may_be_remembered_but_not_become(self):
        answer = decided(kpa(scale=3, max_scale="3"), 55, replicas=3)
        assert answer.certain
        assert not decided(kpa(scale=3, max_scale="3"), 15, replicas=3).certain

    def test_a_scale_down_delay_keeps_what_was_asked_for(self):
        answer = decided(kpa(scale=4, ready=4, scale_down_delay="1m"), 20, replicas=4, panics=False)
        assert (answer.desired, answer.outcome, answer.certain) == (4, "remembered", False)
        tree = kpa(scale=4, ready=4, scale_down_delay="1m")
        tree["spec"]["reachability"] = "Unreachable"
        answer = decided(tree, 20, replicas=4, panics=False)
        assert (answer.desired, answer.certain) == (2, False), "older releases delay it"

    def test_an_autoscaler_that_was_started_anew_keeps_what_is_ready(self):
        assert not decided(kpa(scale=1, ready=5), 20, panic=20, replicas=5).certain


class TestZero:
    @pytest.mark.parametrize(
        ("tree", "more", "expected"),
        [
            (kpa(), [config(enable_scale_to_zero="false")], (1, 1, "zero-disabled")),
            (kpa(), [], (1, 0, "zero-waits")),
            (kpa(since=5), [], (1, 1, "zero-waits")),
            (kpa(since=5, window="6s"), [], (1, 1, "zero-waits")),
            (kpa(since=7, window="6s"), [], (1, 0, "zero-waits")),
            (kpa(active="False", since=5), [], (1, 0, "zero-waits")),
            (kpa(active="False", since=31), [], (0, 0, "scales-down")),
            (kpa(active="False", since=31, scale_to_zero_pod_retention_period="1m"), [], (1, 0, "zero-waits")),
            (kpa(active="Unknown", since=10), [], (1, 1, "activating")),
            (kpa(active="Unknown", since=631), [], (0, 0, "scales-down")),
        ],
    )
    def test_the_way_to_zero(self, tree, more, expected):
        answer = decided(tree, 0, *more, panics=False)
        assert (answer.desired, answer.scale, answer.outcome) == expected

    def test_the_last_step_is_certain_only_if_no_activator_must_be_asked(self):
        assert not decided(kpa(active="False", since=31), 0, panics=False).certain
        tree = kpa(active="False", since=31, target_burst_capacity="-1")
        assert decided(tree, 0, panics=False).certain

    def test_what_is_proxied_long_enough_need_not_wait_again(self):
        at = "2020-01-01T00:00:00Z"
        ready = {"type": "ActivatorEndpointsPopulated", "status": "True", "lastTransitionTime": at}
        metadata = {"name": "web", "namespace": "shop"}
        service = {"kind": "ServerlessService", "metadata": metadata, "status": {"conditions": [ready]}}
        tree = kpa(active="False", since=5, target_burst_capacity="-1")
        answer = decided(tree, 0, service, panics=False)
        assert (answer.desired, answer.certain) == (0, True)


class TestBackwards:
    def test_its_status_tells_between_which_values_it_measures(self):
        answer = decided(kpa(scale=3), replicas=3)
        assert (answer.desired, answer.outcome, answer.certain) == (3, "on-target", False)
        assert "more than 20 and at most 30 requests at a time" in answer.steps[0].text

    @pytest.mark.parametrize(
        ("tree", "replicas", "outcome"),
        [
            (kpa(scale=3, max_scale="3"), 3, "max-scale"),
            (kpa(scale=3, min_scale="3"), 3, "min-scale"),
            (kpa(scale=0), 0, "idle"),
            (kpa(scale=0, active="False", since=5), 1, "zero-waits"),
            (kpa(scale=4), 2, "scales-up"),
            (kpa(scale=None), 1, "no-metrics"),
        ],
    )
    def test_what_it_looks_like(self, tree, replicas, outcome):
        assert decided(tree, replicas=replicas).outcome == outcome

    def test_a_refused_write_is_told_by_its_event(self):
        scene = look(kpa(scale=2), refusal(4), replicas=2)
        answer = decide(scene, None)
        assert (answer.desired, answer.outcome) == (4, "refused")
        assert answer.steps[0].text == "its write was refused: exceeded quota"
        said = "kpa/web was refused 5 s ago: it asked for 4 replicas in place of 2; exceeded quota."
        assert sentence(scene, answer) == said
        assert decided(kpa(scale=4), None, refusal(4), replicas=4).outcome == "on-target", "it got through since"

    def test_where_our_quota_refused_it_quota_and_amount_are_what_helps(self):
        exceeded = f'deployments.apps "web" is forbidden: exceeded workspace quota: acme, {AMOUNTS}'
        event = refusal(4)
        event["message"] = event["message"].replace("exceeded quota", f"{WEBHOOK}{exceeded}")
        scene = look(kpa(scale=2), event, replicas=2)
        answer = decide(scene, None)
        assert sentence(scene, answer).endswith(f"in place of 2; {exceeded}.")
        (remedy,) = changes(scene, answer)
        assert remedy.text == "raise pods of workspace quota acme by 1, or free as much: 4 replicas"

    @pytest.mark.parametrize("scale", [2, None])
    def test_what_the_autoscaler_says_comes_first(self, scale):
        tree = kpa(scale=scale, active="False")
        tree["status"]["conditions"][0] |= {"reason": "FailedCreate", "message": 'Failed to create SKS "web".'}
        for values in (None, Values(15, 15)):
            first = decide(look(tree), values).steps[0]
            assert first.text == 'Active is False, when it last looked: FailedCreate: Failed to create SKS "web".'
        tree["status"]["conditions"][0]["reason"] = "NoTraffic"
        assert decide(look(tree), None).steps[0].rule != "said"

    def test_a_refusal_is_over_once_it_has_woken_or_gone_to_sleep_since(self):
        assert decided(kpa(scale=0, active="False", since=4), None, refusal(1), replicas=0).outcome == "idle"
        assert decided(kpa(scale=0, active="False", since=5), None, refusal(1), replicas=0).outcome == "refused"

    def test_a_refusal_after_which_it_would_have_tried_again_is_over(self):
        assert decided(kpa(scale=2), None, refusal(4, ago=1099), replicas=2).outcome == "refused"
        assert decided(kpa(scale=2), None, refusal(4, ago=1101), replicas=2).outcome == "on-target"

    def test_a_metric_that_fails_says_why_there_is_no_decision(self):
        ready = {"type": "Ready", "status": "False", "reason": "DidNotReceiveStat", "message": "no stat"}
        metric = {"kind": "Metric", "metadata": {"name": "web", "namespace": "shop"}, "status": {"conditions": [ready]}}
        scene = look(kpa(scale=-1), metric)
        answer = decide(scene, None)
        assert sentence(scene, answer).endswith("has no metrics of it (DidNotReceiveStat: no stat).")


class TestSettings:
    def of(self, *more, limit: int = 0, **notes: str) -> rules.Rules:
        tree = kpa(**{"target": "", "target_utilization_percentage": ""} | notes)
        tree["spec"]["containerConcurrency"] = limit
        return look(tree, *more).rules

    @pytest.mark.parametrize(
        ("limit", "notes", "expected"),
        [
            (0, {}, (100, 70)),
            (10, {}, (10, 7)),
            (10, {"target": "50"}, (10, 7)),
            (50, {"target": "10"}, (10, 7)),
            (0, {"metric": "rps"}, (200, 140)),
            (0, {"metric": "rps", "target": "50", "target_utilization_percentage": "80"}, (50, 40)),
            (0, {"target": "0.01"}, (0.01, 0.01)),
            (0, {"target": "many"}, (100, 70)),
        ],
    )
    def test_what_is_aimed_at(self, limit, notes, expected):
        own = self.of(limit=limit, **notes)
        assert (own.total, own.target) == pytest.approx(expected)

    def test_what_no_route_reaches_has_no_minimum(self):
        tree = kpa(min_scale="3")
        tree["spec"]["reachability"] = "Unreachable"
        assert look(tree).rules.least == 0

    def test_a_panic_window_is_rounded_to_whole_seconds(self):
        assert self.of(window="1m30s", panic_window_percentage="12.5").panic_window_s == 11
        assert self.of(window="1m30s", panic_window_percentage="12.8").panic_window_s == 12
        assert self.of(window="6s", panic_window_percentage="1").panic_window_s == 1

    def test_without_the_config_map_the_defaults_are_only_likely(self):
        objects = Objects([])
        assert rules.config_of(objects).known is False
        assert not decided(kpa(), 10, {"kind": "ConfigMap", "metadata": {"name": "other"}}).certain
        assert not decided(kpa(), 10, config(max_scale_up_rate="fast")).certain

    def test_initial_scale_zero_needs_the_clusters_consent(self):
        assert self.of(initial_scale="0").initial == 1
        assert self.of(config(allow_zero_initial_scale="true"), initial_scale="0").initial == 0


def test_what_it_scales_must_be_there():
    with pytest.raises(ExplainError, match="kubectl get deployment web -n default"):
        look(kpa() | {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, "metadata": {"name": "web"}})


def would(tree, stable: float | None, *more, replicas: int = 1) -> dict[str, tuple[str, int]]:
    scene = look(tree, *more, replicas=replicas)
    values = None if stable is None else Values(stable, stable)
    return {one.kind: (one.value, one.replicas) for one in changes(scene, decide(scene, values))}


def test_each_change_that_is_named_would_do():
    assert would(kpa(), 10) == {"metric": ("10", 2), "target": ("9", 2), "min-scale": ("2", 2)}
    assert would(kpa(scale=3, max_scale="3"), 55, replicas=3) == {"max-scale": ("4", 4)}
    assert would(kpa(scale=3, max_scale="3"), None, replicas=3) == {"max-scale": ("4", 4)}
    assert would(kpa(target="0.5"), 0.4)["target"] == ("0.39", 2)
    assert would(kpa(scale=2), None, refusal(4), replicas=2) == {}


def test_every_outcome_has_its_sentence():
    assert set(REASONS) >= {"max-scale", "remembered", "zero-waits", "no-metrics"}
    scene = look(kpa(scale=3, max_scale="3"), replicas=3)
    assert sentence(scene, decide(scene, Values(55, 55))) == (
        "kpa/web stays at 3 replicas: concurrency is 55, the target is 10 for each replica, which makes 6, and "
        "max-scale 3 allows no more."
    )

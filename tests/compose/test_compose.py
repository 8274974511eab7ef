"""docker-compose.yml ends with an HPA that stops at its quota, as examples/compose/README.md shows it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from testcontainers.compose import DockerCompose

from tests.compose import engine
from tests.support.compose import FITS, LOOK
from tests.waiting import eventually

pytestmark = pytest.mark.containers

WITHIN_S = 400.0
PAGE = (Path(__file__).parents[2] / "examples" / "compose" / "README.md").read_text()


def compose(services: DockerCompose, *arguments: str) -> str:
    """What a command of Docker's compose prints."""
    command = [*services.docker_compose_command(), *arguments]
    done = subprocess.run(
        command,
        cwd=services.context,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kubectl(services: DockerCompose, *arguments: str) -> str:
    return compose(services, "run", "--rm", "kubectl", *arguments)


def container(services: DockerCompose, service: str) -> dict:
    """What the engine knows of it."""
    return json.loads(engine.found().run("inspect", f"extauthz-{service}-1").stdout)[0]


@pytest.fixture(scope="module")
def shown(services: DockerCompose) -> str:
    """What ``show`` printed, after it has ended."""

    def ended() -> bool:
        return container(services, "show")["State"]["Status"] == "exited"

    eventually(ended, lambda: services.get_logs("show"), within_s=WITHIN_S)
    return compose(services, "logs", "--no-log-prefix", "show")


def test_it_ends_well_and_says_how_to_look(services: DockerCompose, shown: str):
    assert container(services, "show")["State"]["ExitCode"] == 0, shown
    assert shown.endswith(LOOK)
    assert f"shop/web: {FITS} replicas\nstopped: the HPA says False FailedUpdateScale" in shown
    assert "exceeded workspace quota: acme, requested: requests.cpu=2, used: requests.cpu=2" in shown


def test_the_page_shows_what_it_prints(shown: str):
    printed = {line.strip() for line in shown.splitlines() if not line.startswith("acme ") and "  " not in line.strip()}
    assert printed <= {line.strip() for line in PAGE.splitlines()}


@pytest.mark.parametrize("service", ["gate", "envoy", "kube-apiserver", "kube-controller-manager", "etcd"])
def test_a_service_is_nobody_writes_nowhere_and_may_gain_nothing(services: DockerCompose, shown: str, service: str):
    seen = container(services, service)
    assert seen["State"]["Running"], services.get_logs(service)
    assert seen["Config"]["User"] == "65532:65532"
    assert seen["HostConfig"]["ReadonlyRootfs"]
    assert any("no-new-privileges" in option for option in seen["HostConfig"]["SecurityOpt"])


def test_the_gate_says_that_it_is_healthy(services: DockerCompose, shown: str):
    word, *command = container(services, "gate")["Config"]["Healthcheck"]["Test"]
    assert word == "CMD"
    engine.found().run("exec", "extauthz-gate-1", *command)


def test_the_gate_was_asked_by_the_hpa_through_envoy(services: DockerCompose, shown: str):
    denied = next(line for line in logged(services, "gate") if line.get("verdict") == "deny")
    assert denied["user_agent"].endswith("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
    # Envoy writes its log every ten seconds.
    eventually(lambda: denied["id"] in {line.get("decision_id") for line in logged(services, "envoy")})


def logged(services: DockerCompose, service: str) -> list[dict[str, Any]]:
    lines = compose(services, "logs", "--no-log-prefix", service).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_with_more_room_it_goes_on_by_itself(services: DockerCompose, shown: str):
    patch = next(line for line in LOOK.splitlines() if " patch " in line)
    compose(services, *shlex.split(patch)[2:])

    def replicas() -> int:
        return int(kubectl(services, "-n", "shop", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"))

    eventually(lambda: replicas() == 2 * FITS, replicas)

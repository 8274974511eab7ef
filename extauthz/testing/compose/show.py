"""Installs what ``examples/compose`` describes, watches the HPA grow until its quota stops it, and says how to look."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extauthz.testing.processes import page

from . import keys

Tree = Any

NAMESPACE, NAME = "shop", "web"
BUSY = {"cpu": "900m", "memory": "64Mi"}
"""What each container uses of the 500m that it asks for: at any size the HPA wants more."""
FITS = 4
"""Replicas: two CPUs of quota, 500m each."""
MANIFESTS = Path("/manifests")
WITHIN_S = 300.0
PAUSE_S = 0.5

LOOK = """\
All of it stays up. To look around:
  docker compose run --rm kubectl -n shop describe hpa web
  docker compose run --rm kubectl describe workspacequota acme
  docker compose logs gate envoy
Give it room, and it goes on by itself:
  docker compose run --rm kubectl patch wsq acme --type=merge --patch '{"spec": {"hard": {"requests.cpu": "4"}}}'
  docker compose run --rm kubectl -n shop get hpa web --watch
Take it away:
  docker compose down --volumes
"""


class NeverError(Exception):
    """It did not happen in time. The message says what was seen last."""


def run(folder: Path) -> int:
    """0 if the HPA stopped where its quota says; 1 if not, with what there was instead."""
    kubectl = Kubectl(folder / "admin.kubeconfig")
    try:
        _install(kubectl)
        said = _watch(kubectl)
    except (NeverError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"stopped: the HPA says {said}\n")
    _say(kubectl("get", "workspacequotas"))
    _say(kubectl("-n", NAMESPACE, "get", "hpa,deployment"))
    _say(LOOK)
    return 0


class Kubectl:
    """The command, as an administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = ["kubectl", f"--kubeconfig={kubeconfig}", "--cache-dir=/tmp/kubectl"]

    def __call__(self, *arguments: str) -> str:
        """The output of the command.

        Raises:
            NeverError: it does not go well; with what it says.
        """
        command = [*self._command, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode:
            raise NeverError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def _install(kubectl: Kubectl) -> None:
    _say("waiting for the API server")
    _until(lambda: kubectl("get", "--raw", "/readyz"))
    _say("the gate's definitions and rights, as deploy/ has them; a quota of two CPUs: examples/compose/quota.yaml")
    kubectl("apply", f"--kustomize={MANIFESTS}/examples/compose/cluster")
    kubectl("wait", "--for=condition=Established", "crd/workspacequotas.extauthz.dev", "--timeout=60s")
    kubectl("apply", f"--filename={MANIFESTS}/examples/compose/quota.yaml")
    _say("waiting for the gate")
    _until(_gate_ready)
    kubectl("wait", "--for=condition=Ready", "workspacequota/acme", "--timeout=120s")
    _say("a Deployment of 500m a pod, always busy, and its HPA, from 1 to 10: examples/compose/shop.yaml")
    kubectl("apply", f"--filename={MANIFESTS}/examples/compose/shop.yaml")


def _watch(kubectl: Kubectl) -> str:
    """Tell of each size, until a quota stops it. The condition's sentence."""
    sizes = [0]

    def stopped() -> str:
        size = int(json.loads(kubectl("-n", NAMESPACE, "get", "deployment", NAME, "-o", "json"))["spec"]["replicas"])
        if size != sizes[-1]:
            _say(f"{NAMESPACE}/{NAME}: {size} replicas")
            sizes.append(size)
        able = condition(json.loads(kubectl("-n", NAMESPACE, "get", "hpa", NAME, "-o", "json")), "AbleToScale")
        if size > FITS:
            raise AssertionError(f"{size} replicas, and {FITS} fit")
        sentence = f"{able.get('status')} {able.get('reason')}: {able.get('message')}"
        if size == FITS and "exceeded workspace quota" in sentence:
            return sentence
        raise NeverError(f"{size} replicas; AbleToScale {sentence}")

    return _until(stopped)


def condition(hpa: Tree, kind: str) -> Tree:
    """One condition of an HPA; empty before it has any."""
    conditions = hpa.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _gate_ready() -> str:
    try:
        return page(keys.url(keys.GATE_HTTP, "http") + "/readyz")
    except OSError as error:
        raise NeverError(f"the gate is not ready: {error}") from error


def _until(attempt: Callable[[], str]) -> str:
    """Try until it goes well.

    Raises:
        NeverError: the last one, when time is up.
    """
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return attempt()
        except NeverError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _say(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()

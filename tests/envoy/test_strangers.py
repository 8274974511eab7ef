"""Strangers beside honest clients, through one real Envoy to a real API server: nobody loses a request by them.

The API server leaves a connection on which it has answered somebody whom it does not know (GOAWAY). So Envoy has
connections to it for each of its own clients.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from extauthz.tools.render.options import Endpoint
from tests.controlplane.access import service_account
from tests.controlplane.living import deployment
from tests.controlplane.plane import Plane
from tests.support.stack import PATCH, Stack

pytestmark = pytest.mark.controlplane

NAMESPACE = "strangers"
WRITES = 150
STRANGERS = 6


def scale(stack: Stack, name: str, token: str, h2: bool) -> httpx.Client:
    return httpx.Client(
        base_url=f"https://127.0.0.1:{stack.envoy.port}/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/",
        verify=stack.trust(),
        http1=not h2,
        http2=h2,
        timeout=60.0,
        headers=PATCH | ({"authorization": f"Bearer {token}"} if token else {}),
    )


@pytest.fixture(scope="module")
def honest_token(plane: Plane) -> str:
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name in ("web", "shop"):
        plane.api.create(deployment(name, 1, NAMESPACE))
    return service_account(plane, NAMESPACE, "honest", "cluster-admin")


@pytest.fixture(scope="module")
def stack(plane: Plane, launch: Callable[..., Iterator[Stack]]) -> Iterator[Stack]:
    yield from launch(apiserver=Endpoint("127.0.0.1", plane.port), apiserver_ca_file=str(plane.ca))


@contextmanager
def strangers(stack: Stack, method: str, token: str) -> Iterator[Counter[int]]:
    """As many as there are, as fast as they can, for as long as it takes. What they are answered."""
    answered: Counter[int] = Counter()
    enough = threading.Event()

    def knock() -> None:
        with scale(stack, "web", token, h2=True) as client:
            while not enough.is_set():
                answered[client.request(method, "scale", content=replicas(9)).status_code] += 1

    threads = [threading.Thread(target=knock) for _ in range(STRANGERS)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def replicas(count: int) -> bytes:
    return json.dumps({"spec": {"replicas": count}}).encode()


@pytest.mark.parametrize(
    ("method", "token", "answer"),
    [
        pytest.param("PATCH", "rubbish", 401, id="growth-with-a-bad-token"),
        pytest.param("GET", "rubbish", 401, id="reads-with-a-bad-token"),
        pytest.param("GET", "", 403, id="reads-without-a-token"),
    ],
)
def test_honest_clients_lose_no_request_by_strangers(stack: Stack, honest_token, method: str, token: str, answer: int):
    codes: Counter[int] = Counter()

    def work(name: str, h2: bool) -> None:
        with scale(stack, name, honest_token, h2) as client:
            for count in range(WRITES):
                codes[client.patch("scale", content=replicas(1 + count % 3)).status_code] += 1

    with strangers(stack, method, token) as answered:
        workers = [threading.Thread(target=work, args=one) for one in (("web", True), ("shop", False))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert codes == {200: 2 * WRITES}
    assert set(answered) == {answer}
    assert answered[answer] > STRANGERS, "they were there all the while"

"""A page over a small gate, served for real, and a reader of its HTML."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from extauthz.core.model import Reading, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.questions import scaled
from extauthz.serve.servers.api.rights import ThisHost
from extauthz.serve.servers.page.live import Knowledge
from extauthz.serve.servers.page.rendering import HEADERS
from extauthz.serve.servers.page.routes import Page
from extauthz.tell.observe.episodes import Recent
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, quota, scale, workload

HOSTILE = "<img src=x onerror=alert(1)>\"'&"
WEB = "/namespaces/team-a/workloads/deployments.apps/web"
NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "acme"}}
VOID = {"meta", "link", "img", "input", "br", "hr"}


class Element:
    """One element of a page."""

    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.text = ""


class Reader(HTMLParser):
    """A page as a browser would read it, roughly: its elements with all text inside them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag, f"{tag} ends what it does not begin"

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, cls: str = "") -> Iterator[Element]:
        for one in self.elements:
            if one.tag == tag and cls in ["", *(one.attributes.get("class") or "").split()]:
                yield one

    def texts(self, tag: str, cls: str = "") -> list[str]:
        return [" ".join(one.text.split()) for one in self.all(tag, cls)]

    def links(self) -> set[str]:
        return {str(one.attributes["href"]) for one in self.all("a")}


class World:
    """A page over a small gate."""

    def __init__(self, *quotas: Any, objects: Any = (), namespaces: Any = NAMESPACES) -> None:
        self.now_s = 1_800_000_000.0
        self.gate = gate(quotas, *objects, namespaces=namespaces)
        self.write = Asker(self.gate)
        self.recent = Recent(lambda: self.now_s)
        decide = lambda reading: self.gate.decide(reading, "q", 0.0, charge=False)  # noqa: E731
        self.answers: Answers | None = Answers(Queries(self.gate.ledger), decide, lambda: 0.0, self.recent)
        self.knowledge = Knowledge("1.2.3", notes=["only audits"], quotas=3, workloads=5)
        self.page = Page(lambda: self.answers, ThisHost(), lambda: self.knowledge, lambda: self.now_s)
        self.client: TestClient[web.Request, web.Application]

    def ask(self, name: str, replicas: int, **more: Any) -> None:
        self.recent.decided(Report(self.write(scale(name, replicas, **more)), "", "an-autoscaler/1"))

    def reading(self, name: str, replicas: int) -> Reading:
        return scaled(WorkloadRef("apps", "deployments", "team-a", name), replicas)

    async def serve(self, app: web.Application | None = None) -> AsyncIterator[World]:
        app = app or web.Application()
        self.page.add_to(app)
        async with TestClient(TestServer(app)) as self.client:
            yield self

    async def get(self, path: str, status: int = 200, headers: dict[str, str] | None = None) -> Reader:
        response = await self.client.get(path, headers=headers)
        text = await response.text()
        assert response.status == status, text
        assert response.content_type == "text/html"
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        return Reader(text)


def hostile(namespace: str = "team-a") -> dict[str, Any]:
    made = workload("evil", 1, namespace=namespace)
    made["metadata"]["name"] = HOSTILE
    return made


def small() -> World:
    """Three quotas and three workloads, of which one has a hostile name."""
    quotas = [
        quota("corp", {"requests.cpu": "20"}),
        quota("acme", {"requests.cpu": "10", "pods": "50"}, parent="corp", namespaces={"workspace": "acme"}),
        quota("over", {"pods": "1"}, namespaces={"workspace": "acme"}, workloads={"app": "web"}, mode="Audit"),
    ]
    objects = [workload("web", 3), workload("big", 2, {"cpu": "2"}, namespace="team-b"), hostile()]
    return World(*quotas, objects=objects)

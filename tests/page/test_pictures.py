"""The pictures of docs/page.md: taken only where ``SCREENSHOTS`` names a folder (``make screenshots``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from extauthz.core.objects.workloads import observe
from extauthz.serve.servers.page.live import Knowledge
from extauthz.testing import quota, workload
from tests.page.browsing import browser
from tests.servers.paging import World

FOLDER = os.environ.get("SCREENSHOTS", "")
ROOT = Path(__file__).parents[2]
GPU = "nvidia.com/gpu"
START_S = 1_800_000_000.0
SMALL = {"cpu": "500m", "memory": "1Gi"}
LARGE = {"cpu": "4", "memory": "32Gi", GPU: "1"}

PICTURES = [
    ("tree-light", "/", "light", {"width": 1200, "height": 880}),
    ("workload-dark", "/namespaces/shop/workloads/deployments.apps/checkout", "dark", {"width": 1200, "height": 1010}),
    ("quota-phone", "/quotas/acme-shop", "light", {"width": 390, "height": 1240}),
]


def estate() -> World:
    """A corporation with two workspaces, one of them in three parts."""
    both = {"requests.cpu": "64", "requests.memory": "512Gi"}
    gpus = {"requests.cpu": "40", "requests.memory": "384Gi", f"requests.{GPU}": "8", "pods": "60"}
    quotas = [
        quota("big-corp", {**both, f"requests.{GPU}": "12"}),
        quota("acme", gpus, parent="big-corp"),
        quota("acme-batch", {"pods": "10"}, parent="acme", mode="Audit"),
        quota("acme-shop", {"requests.cpu": "10", "requests.memory": "24Gi", "pods": "20"}, parent="acme"),
        quota("bolt", {"requests.cpu": "20", "requests.memory": "64Gi", f"requests.{GPU}": "4"}, parent="big-corp"),
    ]
    namespaces = {"shop": {"workspace": "acme-shop"}, "batch": {"workspace": "acme-batch"}}
    namespaces |= {"models": {"workspace": "acme"}, "bolt": {"workspace": "bolt"}}
    made = World(*quotas, objects=list(objects()), namespaces=namespaces)
    made.knowledge = Knowledge("0.1.0", quotas=5, workloads=7, pending=1, watches=[("deployments.apps", 9.0)] * 14)
    return made


def objects() -> list[dict[str, Any]]:
    shop = [("web", 4), ("search", 3), ("mail", 1)]
    return [
        checkout(2, "1"),
        *(workload(name, count, SMALL, namespace="shop") for name, count in shop),
        workload("embedder", 4, LARGE, namespace="models"),
        workload("nightly", 12, SMALL, namespace="batch"),
        workload("ranker", 3, LARGE, namespace="bolt"),
    ]


def checkout(replicas: int, version: str) -> dict[str, Any]:
    return workload("checkout", replicas, SMALL, namespace="shop", version=version)


def happened(world: World) -> None:
    """Some of what an afternoon brings."""
    asked = (3, 60), (5, 200), (7, 150), (6, 200), (9, 120), (14, 60), (20, 60), (24, 60), (24, 60), (24, 60), (22, 60)
    version = 1
    for count, after_s in asked:
        world.ask("checkout", count, namespace="shop")
        if count < 10:
            version += 1
            world.gate.observe(*observe(checkout(count, str(version))))
        world.now_s += after_s
    world.ask("ranker", 6, namespace="bolt")
    world.ask("web", 5, namespace="shop")
    world.now_s += 400


@pytest.mark.chromium
@pytest.mark.skipif(not FOLDER, reason="make screenshots takes pictures")
async def test_pictures_are_taken():
    async for world in estate().serve():
        happened(world)
        async with browser() as chromium:
            for name, path, scheme, viewport in PICTURES:
                await take(world, chromium, name, path, color_scheme=scheme, viewport=viewport)


async def take(world: World, chromium: Browser, name: str, path: str, **options: Any) -> None:
    context = await chromium.new_context(**options)
    page = await context.new_page()
    await page.goto(str(world.client.make_url(path)))
    await expect(page.locator("#pulse-text")).to_have_text("live")
    await page.screenshot(path=ROOT / FOLDER / f"{name}.png")
    await context.close()


def test_the_docs_show_each_picture_and_no_other():
    page = (ROOT / "docs" / "page.md").read_text()
    there = {file.stem for file in (ROOT / "docs" / "pictures").glob("*.png")}
    assert there == {name for name, *_ in PICTURES}
    assert all(f"pictures/{name}.png" in page for name in there)

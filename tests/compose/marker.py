"""The markers ``containers`` and ``image``: a test of docker-compose.yml, or of the gate's image alone, is skipped
loudly where images or an engine are missing."""

from __future__ import annotations

import functools

from tests.compose import engine, prepare, standins
from tests.controlplane.marker import Needs


@functools.cache
def missing(mark: str) -> str:
    """What is not here, with the cure; empty if all is."""
    alone = mark == "image"
    cure = engine.IMAGE_CURE if alone else engine.CURE
    if reason := engine.missing(with_compose=not alone):
        return f"{reason}: {cure}"
    wanted = [*standins.bases("gate"), "extauthz"] if alone else [*standins.wanted(), *prepare.OWN]
    absent = [image for image in wanted if not engine.has(engine.official(image))]
    return f"images are not here ({', '.join(absent)}): {cure}" if absent else ""


CONTAINERS, IMAGE = (Needs(mark, functools.partial(missing, mark)) for mark in ("containers", "image"))

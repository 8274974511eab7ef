"""How seldom Python's garbage collector walks over what lives long."""

from __future__ import annotations

import gc
from typing import Final

SELDOM: Final = (20_000, 50, 100)
"""Thresholds of the garbage collector. A decision leaves about thirty objects that live for a landing window, and none
of them in a cycle. Python's own thresholds (700, 10, 10) walk over them often, which costs a twentieth of a whole
check. What a record says lives until its replay ends: there they cost a tenth of the time."""


def spare_the_collector() -> None:
    """Keep full collections from walking over a million workloads that were just loaded and will live long."""
    gc.set_threshold(*SELDOM)
    gc.unfreeze()
    gc.collect()
    gc.freeze()

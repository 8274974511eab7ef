"""Every reason code of a decision: what it means, who can cure it, and how (``reasons.yaml``)."""

from __future__ import annotations

from importlib import resources
from typing import Final, NamedTuple

import yaml


class Reason(NamedTuple):
    code: str
    verdict: str
    """``allow``, ``deny`` or ``unavailable``."""
    meaning: str
    who: str = ""
    """Who can do something about it; empty: nothing is wrong."""
    cure: str = ""


TABLE: Final = tuple(
    Reason(**one)
    for one in yaml.load(resources.files(__package__).joinpath("reasons.yaml").read_text(), yaml.CSafeLoader)
)
"""The order of the page."""

UNREADABLE: Final = TABLE[-1]
"""Any code that is not in the list."""

BY_CODE: Final = {one.code: one for one in TABLE}

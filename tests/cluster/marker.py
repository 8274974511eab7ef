"""The marker ``cluster``: a test that needs a cluster with pods is skipped loudly where there can be none."""

from __future__ import annotations

import functools

from tests.cluster import lacking
from tests.controlplane.marker import Needs

CLUSTER = Needs("cluster", functools.cache(lacking.sentence))

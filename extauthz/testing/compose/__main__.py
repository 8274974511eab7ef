"""One command for each service: ``keys``, ``kubelet``, ``metrics``, ``show``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from extauthz.testing.kubelet import Kubelet
from extauthz.testing.metricsapi import MetricsApi

from . import keys, show


def main() -> int:
    """Run one; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m extauthz.testing.compose", description=__doc__)
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--keys", type=Path, default=Path("/keys"), help="Folder of keys. Default: /keys.")
    arguments = parser.parse_args()
    return SERVICES[arguments.service](arguments.keys)


def _keys(folder: Path) -> int:
    keys.make(folder)
    return 0


def _kubelet(folder: Path) -> int:
    asyncio.run(Kubelet(keys.url(keys.APISERVER), keys.administrator(folder)).main())
    return 0


def _metrics(folder: Path) -> int:
    server = MetricsApi(keys.url(keys.APISERVER), keys.administrator(folder), ("0.0.0.0", keys.METRICS[1]))
    server.usage[show.NAMESPACE] = show.BUSY
    asyncio.run(server.main())
    return 0


SERVICES: Mapping[str, Callable[[Path], int]] = {
    "keys": _keys,
    "kubelet": _kubelet,
    "metrics": _metrics,
    "show": show.run,
}

if __name__ == "__main__":
    sys.exit(main())

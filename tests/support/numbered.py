"""``python -m tests.support.numbered NAME=VALUE… serve …``: a gate with other numbers than everybody's, so that a
test need not wait for them."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from extauthz.serve.service import loading
from extauthz.serve.service.numbers import Numbers
from extauthz.serve.service.settings import Settings


def command(words: Sequence[str], **numbers: float) -> list[str]:
    """How to start ``extauthz`` with ``words`` in a process of its own."""
    return [sys.executable, "-m", __name__ if numbers else "extauthz.cli", *spelled(numbers), *words]


def spelled(numbers: Mapping[str, float]) -> list[str]:
    """As words."""
    return [f"{name}={value}" for name, value in numbers.items()]


def run(words: Sequence[str]) -> None:
    """The command line of what follows the numbers."""
    given = [word for word in words if "=" in word and not word.startswith("-")]
    kinds = {name: type(value) for name, value in vars(Numbers()).items()}
    numbers = Numbers(**{name: kinds[name](float(value)) for name, _, value in (one.partition("=") for one in given)})
    load = loading.load

    def loaded(flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None) -> Settings:
        return replace(load(flags, environ, config), numbers=numbers)

    loading.load = loaded
    sys.argv = ["extauthz", *(word for word in words if word not in given)]
    runpy.run_module("extauthz.cli", run_name="__main__")


if __name__ == "__main__":
    run(sys.argv[1:])

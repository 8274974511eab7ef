"""The version of the installed package, as ``pyproject.toml`` has it."""

from __future__ import annotations

from importlib import metadata

VERSION = metadata.version("extauthz")

"""The settings that flags, environment and ``--config`` make together."""

from __future__ import annotations

import argparse
import os

from extauthz.cli.flags.settings import SET
from extauthz.service.settings import ENV_PREFIX, Settings


def settings(arguments: argparse.Namespace) -> Settings:
    """The effective settings of a command that has the flags of ``flags.settings``.

    Raises:
        SettingsError: one line a problem.
    """
    given = {name.removeprefix(SET): value for name, value in vars(arguments).items() if name.startswith(SET)}
    if not given and arguments.config is None and not any(name.startswith(ENV_PREFIX) for name in os.environ):
        return Settings()
    from extauthz.service import loading  # it brings pydantic, which takes longer than a whole decision on files

    return loading.load(given, os.environ, arguments.config)

"""What is wrong with settings."""

from __future__ import annotations


class SettingsError(Exception):
    """The settings cannot be used. The text is one line a problem: flag, variable or field, what is wrong, the cure."""


class ConfigFileError(SettingsError):
    """The settings file itself is at fault (bad data, not bad usage)."""

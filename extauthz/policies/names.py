"""Words by which settings name policies."""

from __future__ import annotations

from typing import Final

AUDIT: Final = "=Audit"
"""Ends the name of a plug-in that only audits."""

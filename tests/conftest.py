"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for those of others that we cannot mend."""
    # betterproto2's compiler wrote it into envoy-data-plane 2.2.0.
    config.addinivalue_line("filterwarnings", "ignore:Using `@model_validator`:DeprecationWarning")

"""What the doctor is told to look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from extauthz.render.options import Outage, Profile


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at. ``None``: do not look at it."""

    admin: str | None = None
    config_dump: Path | None = None
    kubeconfig: Path | None = None
    url: str | None = None
    ca: Path | None = None
    token_file: Path | None = None
    deployment: tuple[str, str] | None = None
    listener: str | None = None
    profile: Profile | None = None
    outage: Outage = Outage.DENY
    service: tuple[str, str] | None = None
    """Of the gate."""
    zone: str | None = None
    account: str = "extauthz-system/extauthz"
    """The gate's service account."""
    secret: tuple[str, str] | None = None
    """Where gates keep a certificate that they make; ``None``: where they do unless they are told otherwise."""

    @property
    def webhook_secret(self) -> tuple[str, str]:
        return self.secret or (self.account.partition("/")[0], "extauthz-webhook")

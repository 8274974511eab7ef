"""A write that is admitted on the version that is observed is not charged, as if a newer one were observed."""

from extauthz.core.decision import effects

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
ENTRANCES = "webhook"
FAULTS = "late"


def is_too_late(asked):
    version, observed = asked.write.precondition.resource_version, asked.observed
    return version is not None and observed is not None and version == observed.resource_version


def planted():
    return replaced(effects, _is_too_late=is_too_late)

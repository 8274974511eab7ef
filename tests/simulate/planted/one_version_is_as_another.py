"""A write that is admitted on the version that is observed is not charged, as if a newer one were observed."""

from extauthz.core.decision import known

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
ENTRANCES = "webhook"
FAULTS = "late"


def is_newer(version, than):
    return version == than or original(version, than)


original = known.is_newer


def planted():
    return replaced(known, is_newer=is_newer)

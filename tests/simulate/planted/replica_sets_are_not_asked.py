"""Every ReplicaSet is taken for a Deployment's, whose controller asks nobody: growth of one that stands alone is not
charged."""

from extauthz.core.decision import known

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("rs", "deploy")


def of_write(state, write, question):
    counted = question.charge and write.ref.resource != "replicasets"
    return original(state, write, question._replace(charge=counted))


original = known.of_write


def planted():
    return replaced(known, of_write=of_write)

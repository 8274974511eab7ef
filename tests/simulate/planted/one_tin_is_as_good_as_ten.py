"""A custom resource counts as one pod, whatever its scale says."""

from extauthz.cluster import scaled

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("tin", "deploy")


def read(kind, template, root):
    ref, observed = original(kind, template, root)
    observed.replicas = min(observed.replicas, 1)
    return ref, observed


original = scaled.read


def planted():
    return replaced(scaled, read=read)

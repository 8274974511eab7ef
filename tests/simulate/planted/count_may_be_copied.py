"""A patch may copy from the count, as if no other write changed that before it lands."""

from extauthz.core.effects import resolve

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "spelled,late"
WORDS = ("deploy", "sts")
OFTEN = {"copy": 6.0, "directive": 0.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def document(ref, observed):
    tree = original(ref, observed)
    if observed is not None:
        tree["spec"]["replicas"] = observed.replicas
    return tree


original = resolve.document


def planted():
    return replaced(resolve, document=document)

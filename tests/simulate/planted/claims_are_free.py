"""The claims of a StatefulSet's replicas are not charged before they are there."""

from extauthz.core.ledger.pod_costs import PodCosts

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("sts",)


def per_pod(self, namespace, template):
    cost = price(self, namespace, template)
    if template.text.startswith(b'{"claim"'):
        return cost
    return {key: amount for key, amount in cost.items() if key != "requests.storage"}


def claims(self, namespace, template):
    start, _ = of_claims(self, namespace, template)
    return start, {}


price, of_claims = PodCosts.per_pod, PodCosts.claims


def planted():
    return replaced(PodCosts, per_pod=per_pod, claims=claims)

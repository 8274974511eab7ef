"""The decision on an object of a manifest, or on what a controller makes of it, with what is there already."""

from __future__ import annotations

import re
from typing import Any

from extauthz.cli import asking
from extauthz.cli.made import Made
from extauthz.core.model import Verdict
from extauthz.serve.servers.api.answers import MOST
from extauthz.serve.servers.api.rights import Problem, named


def decided(source: asking.Source, made: Made) -> tuple[dict[str, Any], Verdict]:
    """The decision, and what it comes to: the refusal of a revision of which nobody knows that it is new is none.

    Raises Problem.
    """
    decision = source.decision({"object": made.tree})
    was, wanted = decision["replicas"]["from"], decision["replicas"]["to"]
    if made.keeps_count and was is not None and wanted is not None and was > wanted:
        spec = {key: value for key, value in made.tree["spec"].items() if key != "replicas"}
        decision = source.decision({"object": {**made.tree, "spec": spec}})
    verdict = Verdict(decision["verdict"])
    if verdict is Verdict.DENY and made.service and _may_be_there(source, made, named(decision)):
        return decision | {"sentence": f"if its template changed, {decision['sentence']}"}, Verdict.UNAVAILABLE
    return decision, verdict


def _may_be_there(source: asking.Source, made: Made, quotas: set[str]) -> bool:
    """Whether the Service has a revision, as far as one of the quotas that refuse lists its workloads.

    Or the Deployment that KServe makes in its place, if inferenceservice-config says so.
    """
    namespace = made.tree["metadata"]["namespace"]
    revision = re.compile(rf"{re.escape(made.service)}(-\d{{5,}}-deployment)?")
    for quota in sorted(quotas):
        try:
            found = source.workloads(quota, None, MOST)
        except Problem:  # who asks may not see it
            continue
        of_namespace = [one["name"] for one in found["items"] if one["namespace"] == namespace]
        return found["total"] > len(found["items"]) or any(map(revision.fullmatch, of_namespace))
    return True

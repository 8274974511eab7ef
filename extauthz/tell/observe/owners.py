"""Finds the object that a workload's owner writes, where others make the workload of it: KServe's InferenceService and
Knative's Service. Their owners look there, and not at the Deployment or the autoscaler."""

from __future__ import annotations

from typing import Final

from extauthz.core.model import OwnerRef
from extauthz.core.objects import fields
from extauthz.core.quota.selectors import is_subdomain
from extauthz.inputs.kube.connection import ApiError
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.tell.observe.autoscalers import Subject

WRITTEN: Final = {
    ("serving.kserve.io", "InferenceService"): "serving.kserve.io/v1beta1",
    ("serving.knative.dev", "Service"): "serving.knative.dev/v1",
}
"""Kinds that people write, with their ``apiVersion``."""

_BETWEEN: Final = {
    (one.group, one.kind): one
    for one in (
        Resource("serving.knative.dev", "v1", "revisions", "Revision"),
        Resource("serving.knative.dev", "v1", "configurations", "Configuration"),
        Resource("serving.knative.dev", "v1", "services", "Service"),
    )
}
"""Kinds on the way from a Deployment upwards whose objects the gates may get. Each names the next."""


async def top(connection: Calls, namespace: str, owner: OwnerRef | None) -> Subject | None:
    """What its owner writes; ``None``: there is no such object, or the gates may not look.

    Args:
        owner: of the workload.

    Anybody may write an owner into his object. So a name that no object can have is neither asked for nor told.

    Raises:
        ApiError, Unreachable: the API server does not answer now.
    """
    found = None
    for _ in range(len(_BETWEEN) + 1):
        kind = (owner.group, owner.kind) if owner is not None else ("", "")
        if owner is not None and not is_subdomain(owner.name):
            break
        if owner is not None and kind in WRITTEN:
            found = Subject(WRITTEN[kind], owner.kind, namespace, owner.name, owner.uid)
        if owner is None or kind not in _BETWEEN:
            break
        try:
            tree = await connection.call("GET", _BETWEEN[kind].object(namespace, owner.name))
        except ApiError as error:
            if error.status == 429 or error.status >= 500:
                raise
            break
        owner = fields.controller(tree["metadata"].get("ownerReferences"))
    return found

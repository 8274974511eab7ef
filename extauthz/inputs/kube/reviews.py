"""Who somebody is and what they may do, as the API server judges it: TokenReview and SubjectAccessReview."""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import Unreachable
from extauthz.inputs.kube.resource import Calls

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (a path)
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
OWN_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

WITHIN_S = 3.0
"""How long the API server may take: somebody waits for the answer."""


class Person(NamedTuple):
    """Who asks, as the API server knows them. A program's service account is one too."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Target(NamedTuple):
    """What somebody may do, or not. An empty ``name`` means all of them."""

    group: str
    plural: str
    """With its subresource: ``workspacequotas/status``."""
    name: str = ""
    namespace: str = ""
    verb: str = "get"

    def __str__(self) -> str:
        one = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.plural}{f'.{self.group}' if self.group else ''}{one}{where}"


async def person_of(calls: Calls, token: str, audience: str = "") -> Person | None:
    """Whose bearer token it is; ``None``: the API server does not know it.

    Args:
        audience: whom it must be for; empty: the API server.

    Raises:
        ApiError, Unreachable: that cannot be told now.
    """
    spec: Tree = {"token": token} | ({"audiences": [audience]} if audience else {})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    status = _status(await calls.call("POST", TOKEN_REVIEWS, body=body, timeout_s=WITHIN_S))
    user = status.get("user")
    if status.get("authenticated") is not True or not isinstance(user, dict) or not user.get("username"):
        return None
    # Who knows nothing of audiences takes any token and leaves the field out (k8s.io/api/authentication/v1/types.go).
    if audience and audience not in (status.get("audiences") or ()):
        return None
    extra = tuple((key, tuple(values)) for key, values in sorted((user.get("extra") or {}).items()))
    return Person(user["username"], tuple(user.get("groups") or ()), user.get("uid") or "", extra)


async def may(calls: Calls, person: Person | None, target: Target) -> bool:
    """Whether the cluster's authorizers (RBAC and others) let somebody do it; ``None``: whom the calls are from.

    Raises:
        ApiError, Unreachable: that cannot be told now.
    """
    plural, _, subresource = target.plural.partition("/")
    attributes = {"verb": target.verb, "group": target.group, "resource": plural}
    more = {"subresource": subresource, "name": target.name, "namespace": target.namespace}
    attributes |= {key: text for key, text in more.items() if text}
    spec: Tree = {"resourceAttributes": attributes}
    kind, path = "SelfSubjectAccessReview", OWN_ACCESS_REVIEWS
    if person is not None:
        kind, path = "SubjectAccessReview", ACCESS_REVIEWS
        spec |= {"user": person.user, "groups": list(person.groups), "uid": person.uid}
        spec |= {"extra": {key: list(values) for key, values in person.extra}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    status = _status(await calls.call("POST", path, body=body, timeout_s=WITHIN_S))
    return status.get("allowed") is True and status.get("denied") is not True


def _status(answer: Tree) -> dict[str, Tree]:
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise Unreachable("the API server answered a review without a status")
    return status

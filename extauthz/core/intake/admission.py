"""Reads what an API server asks an admission webhook: an AdmissionReview (``admission.k8s.io/v1``).

The fields are those of ``k8s.io/api/admission/v1/types.go``. ``object`` is whole and defaulted, and the API server
stores it on exactly the version that ``oldObject`` has: each retry of its update loop asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from extauthz.core import texts
from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.intake import counts
from extauthz.core.kinds import JOBS, POD_MAKERS, PODS
from extauthz.core.model import (
    NotAWrite,
    Observed,
    Operation,
    Question,
    Reading,
    Requester,
    Resize,
    Tree,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.core.objects import custom, fields, jobs
from extauthz.core.objects.custom import NO_SHAPES, Shape, Shapes
from extauthz.core.objects.fields import boolean, mapping, text, text_list
from extauthz.core.objects.workloads import described, described_pod, interned, pod_template
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import AT_ONCE_BYTES, TOO_COMPLEX, Work

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

NAME = "workspacequotas.extauthz.dev"
"""Our webhook's. A refusal names it: ``admission webhook "workspacequotas.extauthz.dev" denied the request: …``."""

CLAMP_NAME = f"clamp.{NAME}"
"""The mutating one's, as the API server's own metrics and log call it."""

MAX_REVIEW_BYTES = 8 * 1024 * 1024
"""Two objects, each of which the API server took in a body of at most 3 MiB, and what is said about them."""

MAX_UID = 253
"""The API server's have 36 characters."""

POD_NAME = "authentication.kubernetes.io/pod-name"
"""Where the API server says in ``extra`` which pod a service account's token is of."""

MOVED_BY_STATUS: Final = frozenset({"statefulsets", "replicasets", "replicationcontrollers"})
"""A write of their status keeps ``spec``, and takes new labels and owners (``k8s.io/kubernetes/pkg/registry``, each
``strategy.go``: ``PrepareForUpdate`` of the status). That of a Deployment keeps its labels, and no quota asks who owns
it."""

MAX_COUNTS_BYTES: Final = 64 * 1024
"""What of one object may count, as its template and labels are kept: every decision reads it. Of a real object with 200
containers it is some 20 KiB."""

MAX_WHO, MAX_GROUPS = 64 * 1024, 4096
"""Characters of a user's name, groups and pods together, and how many these are. All come back from where a review is
read, and stay with the decision. Whom an API server knows by a token or certificate has a few KiB."""

_OPERATIONS = {"CREATE": Operation.CREATE, "UPDATE": Operation.UPDATE}
_CONNECT = NotAWrite("connect", "connecting changes no object")
TRIAL: Final = NotAWrite("other-resource", "a gate tries whether the API server reaches one, and nothing is stored")
"""The dry run that creates a WorkspaceLedger. Of a real one nothing is asked (``matchConditions``), and it passes."""
LEDGERS: Final = ("extauthz.dev", "workspaceledgers")

_NOTHING = NotAWrite("no-count", "it leaves the replica count, the pod template, the labels and the owner as they are")
_OF_A_WORKLOAD = NotAWrite("no-count", "its workload, whose controller makes it, was decided upon")
"""Where somebody else refuses such a pod, its controller tries again and again, each time under another name."""


class Review(NamedTuple):
    """One AdmissionReview."""

    uid: str
    """The answer must repeat it."""
    question: Question
    count_path: str = "/spec/replicas"
    """Where the object has its replica count, as a JSON Pointer."""


def read(
    body: bytes, limits: Callable[[int], Work] = gojson.of_review, shapes: Shapes = NO_SHAPES
) -> Review | Unreadable:
    """Says what an AdmissionReview asks. Never raises. ``Unreadable``: it is none, so it cannot even be answered.

    Args:
        shapes: of custom resources, where their objects have what counts. Of others only scales count.

    >>> review = read(
    ...     b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u1",'
    ...     b'"operation": "UPDATE", "resource": {"group": "apps", "version": "v1", "resource": "deployments"},'
    ...     b'"subResource": "scale", "namespace": "shop", "name": "web", "object": {"spec": {"replicas": 3}},'
    ...     b'"oldObject": {"metadata": {"resourceVersion": "7"}}, "userInfo": {"username": "hpa"}}}'
    ... )
    >>> write = review.question.reading
    >>> review.uid, review.question.user, str(write.ref), write.replicas, write.precondition.resource_version
    ('u1', 'hpa', 'deployments.apps shop/web', 3, '7')
    """
    try:
        if len(body) > MAX_REVIEW_BYTES:
            raise BodyError("body-too-large", f"more than {MAX_REVIEW_BYTES} bytes")
        return _review(gojson.loads(body, work=limits(len(body))), shapes)
    except (BodyError, ObjectError) as error:
        return _unreadable(error)


def _unreadable(error: BodyError | ObjectError, ref: WorkloadRef | None = None) -> Unreadable:
    """A path in the detail has keys of the object, of any length."""
    return Unreadable(error.code, texts.cut(error.detail, texts.MAX_SENTENCE), ref)


def read_at_once(body: bytes, shapes: Shapes = NO_SHAPES) -> Review | Unreadable | None:
    """The same where it takes little. ``None``: it takes longer than others should wait, so read it elsewhere."""
    if AT_ONCE_BYTES < len(body) <= MAX_REVIEW_BYTES:
        return None
    found = read(body, gojson.of_review_at_once, shapes)
    return None if isinstance(found, Unreadable) and found.code == TOO_COMPLEX else found


def kept(review: Review | Unreadable) -> Review | Unreadable:
    """The same, of what another process has read: equal templates are one object here too (``workloads.intern``)."""
    if isinstance(review, Unreadable):
        return review
    reading = review.question.reading
    if isinstance(reading, Write) and reading.object is not None and reading.object.template is not None:
        reading.object.template = interned(reading.object.template)
    elif isinstance(reading, Resize):
        reading = reading._replace(before=interned(reading.before), after=interned(reading.after))
        return review._replace(question=review.question._replace(reading=reading))
    return review


def _review(tree: Tree, shapes: Shapes) -> Review:
    root = mapping(tree, "(root)")
    if (root.get("apiVersion"), root.get("kind")) != (API_VERSION, KIND):
        detail = f"it is no {KIND} of {API_VERSION}; set admissionReviewVersions: [v1]"
        raise BodyError("not-an-admission-review", detail)
    request = mapping(root.get("request"), "request")
    uid = text(request.get("uid"), "request.uid")
    if not 0 < len(uid) <= MAX_UID:
        raise BodyError("uid-missing", f"request.uid must have 1 to {MAX_UID} characters, and has {len(uid)}")
    info = mapping(request.get("userInfo"), "request.userInfo")  # UserInfo of k8s.io/api/authentication/v1/types.go
    extra = mapping(info.get("extra"), "request.userInfo.extra")
    who = Requester(
        text(info.get("username"), "request.userInfo.username"),
        text_list(info.get("groups"), "request.userInfo.groups"),
        text_list(extra.get(POD_NAME), f"request.userInfo.extra[{POD_NAME}]"),
    )
    (reading, shape), user = _reading(request, shapes), texts.cut(who.user, texts.MAX_NAME)
    if who.user in POD_MAKERS and isinstance(reading, Write) and reading.ref[:2] == PODS:
        return Review(uid, Question(_OF_A_WORKLOAD, user, who))
    if len(who.groups) + len(who.pods) > MAX_GROUPS or sum(map(len, (who.user, *who.groups, *who.pods))) > MAX_WHO:
        return Review(uid, Question(_by_nobody(reading), user))
    question = Question(reading, user, who if who.user else None)
    if isinstance(reading, Write) and reading.ref[:2] == JOBS:
        return Review(uid, question, "/spec/parallelism")
    return Review(uid, question) if shape is None else Review(uid, question, shape.pointer)


def _by_nobody(reading: Reading) -> Reading:
    """The same of somebody who is too long to be told."""
    if not isinstance(reading, Write | Resize):
        return reading
    detail = f"request.userInfo has more than {MAX_WHO} characters or {MAX_GROUPS} groups; let the user be in fewer"
    return Unreadable("requester-too-long", detail, reading.ref)


def _reading(request: Mapping[str, Tree], shapes: Shapes) -> tuple[Reading, Shape | None]:
    """What the request does, and where a custom resource has its count. What cannot be told is no fault of the review,
    and is an answer."""
    try:
        found = _named(request, shapes)
    except (BodyError, ObjectError) as error:
        return _unreadable(error), None
    if isinstance(found, NotAWrite):
        return found, None
    ref, scale = found
    try:
        if ref[:2] == PODS and request.get("subResource"):
            return _resize(request, ref), None
        shape = None
        if not scale and ref[:2] in shapes:
            version = mapping(request.get("resource"), "request.resource").get("version")
            shape = _shape(version, shapes[ref[:2]])
        return _write(request, ref, shape, scale=scale), shape
    except (BodyError, ObjectError) as error:
        return _unreadable(error, ref), None


def _shape(given: Tree, of_kind: Mapping[str, Shape]) -> Shape:
    """That of the request's version. Raises BodyError, ObjectError."""
    version = text(given, "request.resource.version")
    if version not in of_kind:
        cure = f"write it in version {' or '.join(sorted(of_kind))}"
        raise BodyError("version-without-scale", f"its version {version[:40]!a} has no scale subresource; {cure}")
    return of_kind[version]


def _named(request: Mapping[str, Tree], shapes: Shapes) -> tuple[WorkloadRef, bool] | NotAWrite:
    operation = text(request.get("operation"), "request.operation")
    if operation in ("DELETE", "CONNECT"):
        return counts.DELETE if operation == "DELETE" else _CONNECT
    resource = mapping(request.get("resource"), "request.resource")
    parts = {
        "group": text(resource.get("group"), "request.resource.group"),
        "namespace": text(request.get("namespace"), "request.namespace"),
        "resource": text(resource.get("resource"), "request.resource.resource"),
        "name": text(request.get("name"), "request.name"),
        "subresource": text(request.get("subResource"), "request.subResource"),
    }
    if max(map(len, parts.values())) > counts.MAX_NAME:
        longest = max(parts, key=lambda part: len(parts[part]))
        raise BodyError("target-too-long", f"its {longest} has more than {counts.MAX_NAME} characters")
    if not parts["resource"]:
        raise BodyError("resource-missing", "request.resource.resource is empty")
    if (parts["group"], parts["resource"], parts["subresource"]) == (*PODS, "resize"):
        return WorkloadRef(*PODS, parts["namespace"], parts["name"]), False
    if parts["subresource"] == "status" and parts["resource"] in MOVED_BY_STATUS:
        parts["subresource"] = ""
    kind = parts["group"], parts["resource"]
    if kind == LEDGERS and request.get("dryRun") is True:
        return TRIAL
    is_new_pod = kind == PODS and operation == "CREATE"
    if not parts["subresource"] and (kind == JOBS or is_new_pod or kind in shapes):
        return WorkloadRef(parts["group"], parts["resource"], parts["namespace"], parts["name"]), False
    return counts.workload(**parts)


def _write(request: Mapping[str, Tree], ref: WorkloadRef, shape: Shape | None, *, scale: bool) -> Write | NotAWrite:
    given = _object(request)
    operation = _OPERATIONS.get(text(request.get("operation"), "request.operation"))
    if operation is None or (scale and operation is Operation.CREATE):
        raise BodyError("operation-not-known", "request.operation must be CREATE or UPDATE, and of a scale UPDATE")
    dry_run = boolean(request.get("dryRun"), "request.dryRun")
    if operation is Operation.CREATE:
        made, bound = _described(ref, given, shape), counts.bound_create(given)
        return Write(_named_itself(ref, given), operation, scale, dry_run, made.replicas, made, bound)
    if not ref.name:
        raise BodyError("name-missing", "request.name is empty, and an update has one")
    old = mapping(request.get("oldObject"), "request.oldObject")
    bound = counts.bound_object(old)
    if scale:
        return Write(ref, operation, scale, dry_run, counts.of_put(given), precondition=bound)
    before, after = _described(ref, old, shape), _described(ref, given, shape)
    if after == before:
        return _NOTHING
    is_count = after == replace(before, replicas=after.replicas)
    return Write(ref, operation, scale, dry_run, after.replicas, None if is_count else after, bound)


def manifest(ref: WorkloadRef, document: Mapping[str, Tree], shapes: Shapes = NO_SHAPES) -> Write | Unreadable:
    """The create of an object that was not sent yet: what a webhook would be shown of it."""
    try:
        version = str(document.get("apiVersion")).rpartition("/")[2]
        made = _described(ref, document, _shape(version, shapes[ref[:2]]) if ref[:2] in shapes else None)
    except (BodyError, ObjectError) as error:
        return _unreadable(error, ref)
    return Write(ref, Operation.CREATE, False, False, made.replicas, made)


def _described(ref: WorkloadRef, given: Mapping[str, Tree], shape: Shape | None) -> Observed:
    """What of an object counts. Raises BodyError, ObjectError."""
    if shape is not None:
        found = custom.described(shape, given)
    elif ref[:2] == PODS:
        found = described_pod(given)
    else:
        found = jobs.described(given) if ref[:2] == JOBS else described(ref.resource, given)
    size = len(found.template.text) if found.template is not None else 0
    if size + len(found.labels) + len(found.selector or "") + sum(map(len, found.owner or ())) > MAX_COUNTS_BYTES:
        raise _too_much()
    return found


def _too_much() -> BodyError:
    cure = "have fewer containers, volumes, labels and resources in one object"
    return BodyError(TOO_COMPLEX, f"more than {MAX_COUNTS_BYTES} bytes of it count; {cure}")


def _named_itself(ref: WorkloadRef, given: Mapping[str, Tree]) -> WorkloadRef:
    """``ref`` with the name that the new object gives itself, if it has one. Raises BodyError."""
    name = counts.metadata(given).get("name")
    if name is None:
        return ref
    if type(name) is not str:
        raise BodyError("name-not-a-string", "metadata.name must be a string")
    if len(name) > counts.MAX_NAME:
        raise BodyError("name-too-long", f"metadata.name has {len(name)} characters, and may have {counts.MAX_NAME}")
    return ref._replace(name=name)


def _resize(request: Mapping[str, Tree], ref: WorkloadRef) -> Resize:
    """A Pod that is resized. What it holds is in its status, which the request cannot change."""
    before, after = (mapping(request.get(key), f"request.{key}") for key in ("oldObject", "object"))
    pod, observed = fields.observed(*PODS, before)
    if pod != ref or not observed.resource_version:
        raise BodyError("not-an-object", "request.oldObject is not the stored Pod of request.name")
    held, wanted = (
        pod_template(one.get("spec"), before.get("status"), counts.metadata(one).get("generation"))
        for one in (before, after)
    )
    if max(len(held.text), len(wanted.text)) > MAX_COUNTS_BYTES:
        raise _too_much()
    return Resize(ref, held, wanted, observed.resource_version, boolean(request.get("dryRun"), "request.dryRun"))


def _object(request: Mapping[str, Tree]) -> dict[str, Tree]:
    if request.get("object") is None:
        raise BodyError("not-an-object", "request.object is missing")
    return mapping(request["object"], "request.object")

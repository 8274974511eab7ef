"""The OpenAPI 3.1 document of the API (https://spec.openapis.org/oas/v3.1.1). Tests hold every answer against it."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from extauthz.core.model import Refusal
from extauthz.serve.servers.api.answers import MOST
from extauthz.serve.servers.api.questions import MOST_IN_BATCH
from extauthz.serve.servers.api.rights import CONTENT_TYPE

Schema: TypeAlias = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer"}
_FLAG: Final[Schema] = {"type": "boolean"}
_QUANTITY: Final[Schema] = {"type": "string", "description": "A Kubernetes quantity, such as 1500m or 2Gi."}
_QUANTITIES: Final[Schema] = {"type": "object", "additionalProperties": _QUANTITY}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
_VERDICT: Final[Schema] = {"enum": ["allow", "deny", "unavailable"]}
_REFUSAL: Final[Schema] = {"enum": [*(word.value for word in Refusal), None]}
_REPLICAS_OR_NULL: Final[Schema] = _NUMBER_OR_NULL | {"description": "null: no quota sets a bound."}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": list(fields), "properties": fields}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _list(items: Schema, **more: Schema) -> Schema:
    """A page; ``continue`` is the parameter that asks for the next one."""
    return _object(kind=_TEXT, items=_array(items), **{"continue": _TEXT_OR_NULL}, **more)


def _schema(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NAMED: Final[dict[str, Schema]] = {
    "namespace": _TEXT,
    "resource": {"type": "string", "description": "Plural and group, such as deployments.apps."},
    "name": _TEXT,
}

_HIDDEN: Final = _TEXT_OR_NULL | {"description": "null: of a quota that you may not get."}
_SHORTAGE: Final = _object(
    quota=_HIDDEN,
    path=_array(_TEXT),
    resource=_TEXT,
    requested=_QUANTITY,
    **dict.fromkeys(("used", "reserved", "kept", "hard"), _HIDDEN),
)
_POLICY: Final = _object(
    policy=_HIDDEN,
    quota=_TEXT_OR_NULL | {"description": "null: it is a plug-in, or of a quota that you may not get."},
    step={"enum": ["filter", "limit", "permit"]},
    result={"enum": ["refused", "unknown"]},
    message=_HIDDEN,
    audits=_FLAG,
    replicas=_NUMBER_OR_NULL | {"description": "The most that it allows."},
    againSeconds={"type": ["number", "null"], "description": "After how long it is worth to ask again."},
)
_TURN: Final = {"oneOf": [_object(quota=_HIDDEN, place=_NUMBER_OR_NULL, againSeconds=_NUMBER), {"type": "null"}]}
_HEADROOM: Final = _object(
    **_NAMED,
    counts=_TEXT
    | {
        "enum": ["replicas", "parallelism", "objects"],
        "description": "What its replicas are: of a Job pods at once; of what has no scale, whole objects like it.",
    },
    replicas=_REPLICAS_OR_NULL,
    observedReplicas=_NUMBER,
    resourceVersion=_TEXT,
    bound={"oneOf": [_SHORTAGE, {"type": "null"}]},
    auditReplicas=_NUMBER_OR_NULL
    | {"description": "What quotas in mode Audit would allow, where that is less. They refuse nothing."},
    auditBound={"oneOf": [_SHORTAGE, {"type": "null"}]},
    guaranteedReplicas=_NUMBER_OR_NULL
    | {"description": "Up to this count, of those that fit, it takes only room that is kept for it. null: none is."},
    mayAskFor=_NUMBER_OR_NULL
    | {"description": "The most replicas that an autoscaler may ask for. null: none is known."},
    certain=_FLAG,
    reason=_TEXT_OR_NULL | {"description": "Why one replica more would be refused. null: it would not be."},
    sentence=_TEXT_OR_NULL | {"description": "What whoever asks for it would read."},
    turn=_TURN,
    policies=_array(_POLICY),
    unspecified=_array({"type": "object"}),
)

_WHY: Final = {
    "reason": _TEXT,
    "refusal": _REFUSAL,
    "sentence": _TEXT,
    "shortages": _array(_SHORTAGE),
    "policies": _array(_POLICY),
    "turn": _TURN,
}

_SCHEMAS: Final = {
    "Problem": _object(title=_TEXT, status=_NUMBER, detail=_TEXT),
    "Quota": _object(
        name=_TEXT,
        path=_array(_TEXT),
        parent=_TEXT_OR_NULL,
        mode=_TEXT,
        resources={
            "type": "object",
            "additionalProperties": _object(
                **dict.fromkeys(("used", "reserved", "kept", "hard", "guaranteed"), _QUANTITY), over=_FLAG
            ),
        },
        override={"oneOf": [_object(name=_TEXT, reason=_TEXT, until=_TEXT), {"type": "null"}]},
        nextOverride={"oneOf": [_object(name=_TEXT, reason=_TEXT, **{"from": _TEXT}), {"type": "null"}]},
        workloads=_NUMBER,
        unpricedWorkloads=_NUMBER,
        selectsNamespace=_FLAG,
        readable=_FLAG,
        waiting=_NUMBER_OR_NULL | {"description": "How many wait in line. null: its tree has no turns."},
    ),
    "Place": _object(
        **_NAMED, place=_NUMBER, waitsSeconds=_NUMBER, replicas=_NUMBER, needs=_QUANTITIES, asksEverySeconds=_NUMBER
    ),
    "Workload": _object(**_NAMED, replicas=_NUMBER, used=_QUANTITIES, reserved=_QUANTITIES, priced=_FLAG),
    "UseByKind": _object(
        resource=_TEXT,
        kind={"type": "string", "description": "Of who uses it: plural and group, such as jobs.batch."},
        workloads=_NUMBER,
        used=_QUANTITY,
        reserved=_QUANTITY,
        device=_FLAG | {"description": "It is of a device class, or of an extended resource, as GPUs are."},
    ),
    "Headroom": _HEADROOM,
    "PendingWrite": _object(
        **_NAMED,
        id=_TEXT,
        replicas=_NUMBER_OR_NULL | {"description": "null: it leaves the count as it is."},
        changesTemplate=_FLAG,
        state=_TEXT,
        secondsLeft=_NUMBER,
    ),
    "DecisionOfThePast": _object(
        **_NAMED,
        time=_TEXT,
        id=_TEXT,
        verdict=_VERDICT,
        would=_TEXT_OR_NULL | {"description": "What the verdict would have been without mode audit."},
        **_WHY,
        operation=_TEXT_OR_NULL,
        dryRun=_FLAG,
        to=_NUMBER_OR_NULL,
        fits=_NUMBER_OR_NULL,
        audit=_array(_SHORTAGE),
        user=_TEXT_OR_NULL,
        userAgent=_TEXT_OR_NULL,
        **{"from": _NUMBER_OR_NULL},
    ),
    "Episode": _object(
        **_NAMED,
        since=_TEXT,
        lastAsked=_TEXT,
        times=_NUMBER,
        wanted=_NUMBER_OR_NULL,
        observedReplicas=_NUMBER_OR_NULL,
        fits=_NUMBER_OR_NULL,
        **_WHY,
    ),
    "Decision": _object(verdict=_VERDICT, reason=_TEXT, refusal=_REFUSAL, sentence=_TEXT),
}


def _parameter(name: str, where: str, schema: Schema, description: str) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "schema": schema,
        "description": description,
    }


_LIMIT: Final = _parameter(
    "limit", "query", {"type": "integer", "minimum": 1, "maximum": MOST, "default": MOST}, "Items at most."
)
_QUOTA: Final = _parameter("quota", "path", _TEXT, "Name of a WorkspaceQuota.")
_OF_QUOTA: Final = _parameter("quota", "query", _TEXT, "That this quota spoke against, or that count in it now.")
_OF_NAMESPACE: Final = _parameter("namespace", "query", _TEXT, "In this namespace.")
_WORKLOAD: Final = [
    _parameter("namespace", "path", _TEXT, "Namespace of the workload."),
    _parameter("resource", "path", _TEXT, "Such as deployments.apps."),
    _parameter("name", "path", _TEXT, "Name of the workload."),
]


def _answered(schema: Schema) -> Schema:
    problem = {"description": "Why not.", "content": {CONTENT_TYPE: {"schema": _schema("Problem")}}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
        "304": {"description": "Nothing has changed since the ETag of If-None-Match."},
        "default": problem,
    }


def _get(summary: str, schema: Schema, *parameters: Schema) -> Schema:
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": _answered(schema)}}


def _post(summary: str, schema: Schema, asked: Schema) -> Schema:
    body = {"required": True, "content": {"application/json": {"schema": asked}}}
    return {"post": {"summary": summary, "requestBody": body, "responses": _answered(schema)}}


_PATH_OF_WORKLOAD: Final = "/api/v1/namespaces/{namespace}/workloads/{resource}/{name}"

DOCUMENT: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {
        "title": "extauthz",
        "version": "v1",
        "description": "Who uses what of a workspace quota, and what more fits. An answer reserves nothing.",
    },
    "paths": {
        "/api/v1/quotas": _get(
            "Quotas, each after its parent",
            _list(_schema("Quota")),
            _parameter("below", "query", _TEXT, "This quota and all below it."),
            _parameter("continue", "query", _TEXT, "The field continue of the page before."),
            _LIMIT,
        ),
        "/api/v1/quotas/{quota}": _get("One quota", _schema("Quota"), _QUOTA),
        "/api/v1/quotas/{quota}/workloads": _get(
            "Workloads that count in a quota",
            _list(_schema("Workload"), total=_NUMBER, byKind=_array(_schema("UseByKind"))),
            _QUOTA,
            _parameter("sort", "query", _TEXT, "A resource; what uses most of it comes first. Default: by name."),
            _LIMIT,
        ),
        "/api/v1/quotas/{quota}/line": _get(
            "Who waits in line for a quota, or below a root", _list(_schema("Place"), total=_NUMBER), _QUOTA, _LIMIT
        ),
        _PATH_OF_WORKLOAD: _get("What a workload uses", _schema("Workload"), *_WORKLOAD),
        _PATH_OF_WORKLOAD + "/headroom": _get("How many replicas it may have", _schema("Headroom"), *_WORKLOAD),
        "/api/v1/pendingwrites": _get(
            "Allowed writes that may still land, oldest first",
            _list(_schema("PendingWrite"), total=_NUMBER),
            _parameter("quota", "query", _TEXT, "Those that may count in this quota."),
            _LIMIT,
        ),
        "/api/v1/episodes": _get(
            "Workloads that are refused and go on asking, longest first",
            _list(_schema("Episode"), total=_NUMBER),
            _OF_QUOTA,
            _OF_NAMESPACE,
            _LIMIT,
        ),
        "/api/v1/headroom": _post(
            "Headroom of several workloads, or of an object that does not exist yet",
            _list({"oneOf": [_HEADROOM, _object(error=_TEXT)]}),
            {
                "oneOf": [
                    _object(workloads={"type": "array", "items": _object(**_NAMED), "maxItems": MOST_IN_BATCH}),
                    _object(object={"type": "object", "description": "A manifest, such as a Deployment."}),
                    _object(namespace=_TEXT, template={"type": "object", "description": "A pod template."}),
                ]
            },
        ),
        "/api/v1/decisions": _get(
            "The last decisions about workloads, newest first",
            _list(_schema("DecisionOfThePast")),
            _OF_QUOTA,
            _OF_NAMESPACE,
            _parameter("verdict", "query", _VERDICT, "With this verdict."),
            _parameter("continue", "query", _TEXT, "The field continue of the page before."),
            _LIMIT,
        )
        | _post(
            "What a write would get; it is charged nothing",
            _schema("Decision"),
            {
                "oneOf": [
                    _object(**_NAMED, replicas=_NUMBER),
                    _object(method=_TEXT, path=_TEXT),
                    _object(object={"type": "object", "description": "A Deployment, or another kind with replicas."}),
                ]
            },
        ),
    },
    "components": {"schemas": _SCHEMAS},
}

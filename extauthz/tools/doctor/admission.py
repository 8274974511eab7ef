"""Asks about the admission webhook: the cluster for its configuration, the API server for a decision, and the gate for
its certificate."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime

from extauthz.core.intake.admission import CLAMP_NAME
from extauthz.inputs.kube import webhooks
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Calls

from . import canary, cluster, webhook
from .canary import Canary, CanaryReply
from .dump import Tree
from .table import Row, Verdict
from .trust import Handshake, go_strict, shake

WITHIN_S = 5.0


async def rows(api: Calls, deployments: Sequence[tuple[str, str]], account: str) -> list[Row]:
    """All rows. Raises ApiError and Unreachable.

    Args:
        deployments: for dry runs, namespace and name.
        account: of the gate.
    """
    found = webhook.find(await cluster.webhooks(api))
    if found is None:
        return webhook.none()
    asked, answers = await _canary(api, deployments)
    told = webhook.canary(asked, answers)
    named = (found.hook.get("clientConfig") or {}).get("service")
    service = await cluster.service(api, named["namespace"], named["name"]) if named else None
    where = webhook.called(found.hook, service)
    shake = await asyncio.to_thread(_handshake, where, found.hook) if where is not None else None
    answered = told.verdict is Verdict.OK
    authority = webhook.authority(where, shake, datetime.now(UTC), answered=answered)
    wanted = webhook.certificate_rights(found.configuration, account.partition("/")[0])
    is_ours = webhook.gates_make(found, answered=answered)
    rights = await cluster.rights(api, account, wanted) if is_ours else None
    return [webhook.installed(found), authority, told, webhook.certificate(rights), *await _scope(api, found, account)]


async def _scope(api: Calls, found: webhook.Found, account: str) -> list[Row]:
    """What it leaves out of what quotas cover."""
    lowers = webhook.find(await cluster.mutating_webhooks(api), CLAMP_NAME)
    asked = webhooks.of(found.hook, lowers.hook if lowers is not None else None, account.partition("/")[0])
    about = await cluster.quotas(api), await cluster.namespaces(api)
    return [webhook.namespaces(asked, *about), webhook.clamp(asked, *about)]


async def _canary(api: Calls, deployments: Sequence[tuple[str, str]]) -> tuple[list[str], list[CanaryReply]]:
    """Dry runs that ask for more than any quota has, up to the first that the webhook refused or lowered."""
    asked: list[str] = []
    answers: list[CanaryReply] = []
    for namespace, name in deployments:
        asked.append(f"{namespace}/{name}")
        answers.append(await _sent(api, Canary(namespace, name, canary.BODIES[0])))
        last = answers[-1]
        if last.is_lowered or webhook.DENIED in last.message or webhook.FAILED in last.message:
            break
    return asked, answers


async def _sent(api: Calls, sent: Canary) -> CanaryReply:
    path, body = sent.target.partition("?")[0], json.loads(sent.body)
    try:
        stored = await api.call("PATCH", path, query=[("dryRun", "All")], body=body, content_type=canary.MEDIA)
    except ApiError as error:
        return CanaryReply(error.status, message=error.message)
    except Unreachable as error:
        return CanaryReply(0, message=str(error))
    return CanaryReply(200, is_lowered=stored["spec"].get("replicas") != canary.MOST)


def _handshake(where: webhook.Called, hook: Tree) -> Handshake:
    """As the API server makes it: its trust is ``caBundle``, or the system's without one."""
    try:
        context = _trusting((hook.get("clientConfig") or {}).get("caBundle") or "")
    except ValueError as error:
        return Handshake(f"{where.host}:{where.port}", f"it holds no certificates in PEM ({error})", refused=True)
    return shake((where.host, where.port), context, where.name, WITHIN_S)


def _trusting(bundle: str) -> ssl.SSLContext:
    """Raises ValueError."""
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() or None)
    except ssl.SSLError as error:
        raise ValueError(str(error)) from None
    return go_strict(context)

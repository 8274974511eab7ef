"""The admission webhook: is it installed as this version renders it, is it trusted, and does it answer?

The API server itself is asked for the last two where it can tell: a dry run that the webhook refuses has passed its
rules, its conditions, its authority and its network.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from extauthz.core.intake.admission import NAME
from extauthz.core.quota import selectors
from extauthz.core.quota.problems import Problems
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import Mode, WorkspaceQuota
from extauthz.inputs.kube.reviews import Target
from extauthz.inputs.kube.webhooks import Webhooks
from extauthz.serve.selfsigned import issuing, renewal
from extauthz.serve.service.certificates import KEPT_IN
from extauthz.tell.observe.observers import named
from extauthz.tools.render import webhook as rendered
from extauthz.tools.render.webhook import BREAK_GLASS, WebhookOptions

from . import trust
from .canary import PASSED, CanaryReply
from .cluster import Rights, covers, may
from .dump import Tree
from .table import Row, all_skipped, fail, judged, ok, skipped, warn
from .trust import Handshake

NAMES = ("webhook", "webhook authority", "webhook canary", "webhook certificate", "webhook namespaces", "webhook clamp")
INSTALL = (
    "whole objects, templates, labels and owners are decided there alone, and counts where no Envoy stands before the"
    " API server: install it (docs/webhook.md)"
)
FAIL_CLOSED = (
    "before a quota has the mode Enforce or Clamp, set failurePolicy (in the chart webhook.failurePolicy) to Fail"
)
RENDER_AGAIN = "kubectl apply what `extauthz render webhook` of this version prints, or upgrade the chart's release"
TRUSTED = (
    "write the authority of the gate's certificate into caBundle (`extauthz render webhook --ca`, cert-manager), or let"
    " the gates do it (serve without --webhook-cert); the certificate must be for that name"
)
REACH = "see that the gates run, and that a NetworkPolicy or a firewall lets the API server in (docs/webhook.md)"
INJECTED = "cert-manager.io/inject-ca-from"
"""The annotation by which cert-manager is told to (https://cert-manager.io/docs/concepts/ca-injector)."""
MAY_MAKE = (
    "webhook.certificates: self-signed of the chart lets the gates do that; if the certificate is made otherwise,"
    " write its authority into caBundle (docs/webhook.md)"
)
MOST_QUOTAS = 5
LABEL = (
    "label these namespaces as namespaceSelector of the webhook selects, or change that (webhook.namespaceSelector);"
    f" take the label {BREAK_GLASS} off"
)
LOWER = (
    "set webhook.clamp of the chart, or apply all that `extauthz render webhook` prints; or render Envoy with --clamp"
)
DENIED = f'admission webhook "{NAME}" denied the request'
"""How the API server begins where it refused."""
FAILED = f'failed calling webhook "{NAME}"'


class Called(NamedTuple):
    name: str
    """That the certificate must have."""
    host: str
    """Where it is dialled: the same, or the address of the Service."""
    port: int


class Found(NamedTuple):
    """Our webhook, and the configuration that it is in."""

    configuration: str
    hook: Tree
    is_injected: bool = False
    """cert-manager writes its authority."""


def find(configurations: Sequence[Tree], called: str = NAME) -> Found | None:
    """Our webhook among all of a kind."""
    for one in configurations:
        for hook in one.get("webhooks") or ():
            if hook.get("name") == called:
                metadata = one["metadata"]
                return Found(metadata["name"], hook, INJECTED in (metadata.get("annotations") or {}))
    return None


def installed(found: Found) -> Row:
    """Whether it matches what this version renders. More rules, more namespaces left out and less time are choices."""
    name = NAMES[0]
    wanted, hook = rendered.configuration(WebhookOptions())["webhooks"][0], found.hook
    same = ("matchPolicy", "sideEffects")
    problems = [f"it is not asked about {each}" for each in sorted(_asked(wanted) - _asked(hook))]
    problems += [f"{field} is not that of this version" for field in same if hook.get(field) != wanted[field]]
    policy = hook.get("failurePolicy")
    dead = f"failurePolicy {policy}: growth {'is refused' if policy == 'Fail' else 'passes'} while no gate answers"
    more, missing = _conditions(hook)
    if missing:
        problems.append(f"matchConditions {', '.join(missing)} are not those of this version")
    if not _selector(hook.get("objectSelector")).matches({}):
        problems.append("objectSelector leaves every autoscaler out: a Scale has no labels")
    only = f"; only where {', '.join(more)} holds too" if more else ""
    well = f"{found.configuration} asks as this version does; {dead}; not about {_left_out(hook)}{only}"
    if policy != "Fail" and not problems:
        return warn(name, well, FAIL_CLOSED)
    return judged(name, well, problems, RENDER_AGAIN)


def _conditions(hook: Tree) -> tuple[list[str], list[str]]:
    """Names of those that somebody has added, and of ours that are missing or changed. Which labels of workloads are
    compared is a choice."""
    there = {str(one.get("name")): str(one.get("expression")) for one in hook.get("matchConditions") or ()}
    named = tuple(dict.fromkeys(re.findall(r"labels\[\?'([^']+)'\]", there.get("may-grow", ""))))
    choices = [dict(rendered.conditions(labels)) for labels in (None, (), named)]
    ours = next((one for one in choices if one.items() <= there.items()), choices[0])
    return [name for name in there if name not in ours], [name for name in ours if there.get(name) != ours[name]]


def _selector(tree: Tree | None) -> LabelSelector:
    return selectors.parse(tree or {}, (), Problems())


def namespaces(asked: Webhooks, quotas: Sequence[WorkspaceQuota], there: Mapping[str, Mapping[str, str]]) -> Row:
    """Whether it is asked about each namespace that a quota covers. ``there``: their labels."""
    name = NAMES[4]
    left_out = {quota.name: out for quota in quotas if (out := asked.unasked(_covered(quota, there)))}
    told = [f"{quota} covers {named(out)}, which it is not asked about" for quota, out in left_out.items()]
    shown = told[:MOST_QUOTAS] + ([f"and {len(told) - MOST_QUOTAS} quotas more"] if len(told) > MOST_QUOTAS else [])
    return judged(name, "it is asked about each namespace that a quota covers", shown, LABEL)


def clamp(asked: Webhooks, quotas: Sequence[WorkspaceQuota], there: Mapping[str, Mapping[str, str]]) -> Row:
    """Whether counts are lowered where quotas have the mode Clamp."""
    name = NAMES[5]
    clamping = [quota for quota in quotas if quota.mode is Mode.CLAMP]
    plain = tuple(one.name for one in clamping if asked.lowers is None or asked.unlowered(_covered(one, there)))
    if not clamping:
        return ok(name, "no quota has the mode Clamp")
    if plain:
        return warn(name, f"it lowers no count for {named(plain)}, in mode Clamp: what does not fit is refused", LOWER)
    return ok(name, f"it lowers counts for {named(tuple(one.name for one in clamping))}")


def _covered(quota: WorkspaceQuota, there: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    return {name: labels for name, labels in there.items() if covers(quota, labels)}


def _asked(hook: Tree) -> set[str]:
    """Operation, group and resource, in words."""
    return {
        f"{operation} of {resource}{f'.{group}' if group else ''}"
        for rule in hook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for operation in rule.get("operations") or ()
    }


def _left_out(hook: Tree) -> str:
    """Namespaces, as the selector names them."""
    selector = hook.get("namespaceSelector") or {}
    expressions = selector.get("matchExpressions") or []
    excepted = [value for each in expressions if each.get("operator") == "NotIn" for value in each.get("values") or ()]
    others = [each for each in expressions if each.get("operator") != "NotIn" and each.get("key") != BREAK_GLASS]
    more = bool(selector.get("matchLabels")) or bool(others)
    return ", ".join([*excepted, *(["namespaces without certain labels"] if more else [])]) or "nothing"


def called(hook: Tree, service: Tree | None) -> Called | None:
    """Where it is called. ``service``: the one that it names; ``None`` without one."""
    client = hook.get("clientConfig") or {}
    if named := client.get("service"):
        if service is None:
            return None
        address = str((service.get("spec") or {}).get("clusterIP") or "")
        return Called(f"{named['name']}.{named['namespace']}.svc", address, int(named.get("port") or 443))
    parts = urlsplit(str(client.get("url") or ""))
    return Called(parts.hostname or "", parts.hostname or "", parts.port or 443)


def authority(where: Called | None, shake: Handshake | None, now: datetime, *, answered: bool) -> Row:
    """Whether ``caBundle`` vouches for the certificate.

    Args:
        where: ``None``: the Service is not there.
        shake: as the API server makes it, from here; ``None`` without a Service.
        answered: the API server got an answer from it.
    """
    name = NAMES[1]
    if where is None or shake is None:
        return fail(name, "there is no such Service", "see clientConfig.service of the configuration")
    if shake.refused:
        return fail(name, f"caBundle does not vouch for {where.name} at {shake.host}: {shake.error}", TRUSTED)
    if shake.error:
        told = f"from here {shake.host} is not reached ({shake.error})"
        return ok(name, f"the API server trusts it; {told}") if answered else warn(name, told, REACH)
    lasts = trust.validity(shake, None, now)
    told = f"caBundle vouches for {where.name}; {lasts.found}"
    return Row(name, lasts.verdict, told, lasts.cure and "see that it is renewed (docs/webhook.md)")


def gates_make(found: Found, *, answered: bool) -> bool:
    """Whether the gates make the certificate (``serve`` without ``--webhook-cert``), or would, if they were let: nobody
    has written an authority, and none of the system's does."""
    bundle = (found.hook.get("clientConfig") or {}).get("caBundle") or ""
    if not bundle:
        return not found.is_injected and not answered
    try:
        return issuing.has_ours(base64.b64decode(bundle))
    except ValueError:
        return False


def certificate_rights(configuration: str, namespace: str) -> list[Target]:
    """What gates in a namespace need for that."""
    kinds = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    return [
        *(Target("", "secrets", KEPT_IN, namespace, verb) for verb in ("get", "update")),
        *(Target(renewal.GROUP, kind, configuration) for kind in kinds),
        Target(renewal.GROUP, kinds[0], configuration, verb="patch"),
    ]


def certificate(told: Rights | None) -> Row:
    """Whether the gates may make and renew it. ``None``: somebody else makes it."""
    name = NAMES[3]
    if told is None:
        found = "caBundle holds no authority that the gates make"
        return skipped(name, found, "see who writes and renews it (docs/webhook.md)")
    found = f"{told.whose} may make and renew it"
    return may(name, told.whose, told.allowed, found, MAY_MAKE, whole=told.whole)


def none() -> list[Row]:
    return all_skipped(NAMES, "none is installed", INSTALL)


def canary(asked: Sequence[str], answers: Sequence[CanaryReply]) -> Row:
    """What became of dry runs, sent straight at the API server.

    Args:
        asked: about which Deployments, up to the first that the webhook refused or lowered.
        answers: one each.
    """
    name = NAMES[2]
    if not answers:
        return skipped(name, "the cluster has no Deployment to ask about", "--canary")
    last, about = answers[-1], ", ".join(asked)
    if DENIED in last.message or last.is_lowered:
        return ok(name, f"a dry run on {asked[-1]} was decided ({last.status}{', lowered' * last.is_lowered})")
    if FAILED in last.message:
        cure = f"see the row {NAMES[1]}" if "x509" in last.message else REACH
        return fail(name, f"the API server gets no answer: {_reason(last.message)}", cure)
    if all(each.status in (401, 403) for each in answers):
        return skipped(name, "the user of --kubeconfig may not scale", "--kubeconfig of somebody who may")
    statuses = ", ".join(dict.fromkeys(str(each.status) for each in answers))
    return warn(name, f"dry runs on {about} ({statuses}) were not refused by it", PASSED)


def _reason(message: str) -> str:
    return message.partition(FAILED)[2].lstrip(": ")

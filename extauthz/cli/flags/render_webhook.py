"""Flags of ``extauthz render webhook``."""

from __future__ import annotations

import argparse
import re

from extauthz.cluster import selectors
from extauthz.core.errors import ObjectError
from extauthz.core.quota.selectors import LabelSelector, is_label_key
from extauthz.render import webhook
from extauthz.render.manifests import FORMATS
from extauthz.render.webhook import Custom, WebhookOptions

DEFAULTS = WebhookOptions()

EPILOG = """\
examples:
  extauthz render webhook --ca ca.crt | kubectl apply -f -
  extauthz render webhook --ca ca.crt --custom rollouts.argoproj.io --except-namespace monitoring
  extauthz render webhook --ca ca.crt --namespace-selector workspace | kubectl apply -f -
  extauthz render webhook --ca ca.crt --namespace-selector workspace --webhook-pods
  extauthz render webhook --ca ca.crt --match-condition "not-by-ci=request.userInfo.username != 'ci'"
  extauthz render webhook --ca ca.crt --url https://127.0.0.1:9443     # beside the API server

The gate listens with `extauthz serve --webhook`. See docs/webhook.md."""


def add_parser(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "the webhook configurations for `extauthz serve --webhook`"
    parser = what.add_parser("webhook", help=text, description=f"Prints {text}.", epilog=EPILOG)
    add = parser.add_argument
    add(
        "--ca",
        metavar="FILE",
        help="PEM of the authority of the webhook's certificate. Default: none; cert-manager or "
        "`serve --webhook-self-signed` writes it.",
    )
    add("--service", type=service, metavar="NAME.NAMESPACE[:PORT]", help="Default: extauthz.extauthz-system:443.")
    add("--url", type=url, metavar="URL", help="In place of a Service: https://HOST:PORT.")
    add(
        "--except-namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="Ask about nothing in it. May be repeated. kube-system and the gate's own are always left out.",
    )
    add(
        "--custom",
        type=custom,
        action="append",
        default=[],
        metavar="PLURAL.GROUP",
        help="Ask about this custom resource and its scale too, such as rollouts.argoproj.io. May be repeated.",
    )
    _add_scope(parser)
    add(
        "--webhook-pods",
        dest="pods",
        action="store_true",
        help="Ask about new Pods too, but those that controllers make for workloads. Needs --namespace-selector.",
    )
    add(
        "--clamp",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Also a MutatingWebhookConfiguration, which lowers counts where quotas have the mode Clamp. Default: yes.",
    )
    add("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def _add_scope(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--namespace-selector",
        type=selector,
        default=LabelSelector(),
        metavar="SELECTOR",
        help="Ask only about namespaces with these labels, written as for `kubectl get -l`: workspace, or "
        "'tier in (a,b)'. Default: all.",
    )
    add(
        "--object-selector",
        type=object_selector,
        default=LabelSelector(),
        metavar="SELECTOR",
        help="Leave out workloads with a label: '!legacy', 'tier!=system'. Their scales are asked about all the same.",
    )
    add(
        "--match-condition",
        type=condition,
        action="append",
        default=[],
        metavar="NAME=EXPRESSION",
        help="Ask only where this holds too, in CEL. May be repeated.",
    )
    add(
        "--workload-labels",
        type=label_keys,
        metavar="KEY[,KEY...]",
        help="The labels that workloadSelectors of quotas look at: a change of another one is not asked about. Empty: "
        "none. Default: any label may be one.",
    )


def service(text: str) -> tuple[str, str, int]:
    """A Service by name, namespace and port."""
    found = re.fullmatch(r"([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc)?(?::(\d{1,5}))?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no Service; write for example extauthz.extauthz-system:443")
    return found[1], found[2], int(found[3] or DEFAULTS.port)


def url(text: str) -> str:
    """Where a webhook is that is no Service."""
    if not re.fullmatch(r"https://[^/?#\s]+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: an API server asks https://HOST:PORT alone")
    return text


def custom(text: str) -> Custom:
    """A custom resource by plural and group."""
    plural, dot, group = text.partition(".")
    if not plural or not dot or "." not in group:
        raise argparse.ArgumentTypeError(f"{text!r} names no custom resource; write for example rollouts.argoproj.io")
    return Custom(group, plural)


def selector(text: str) -> LabelSelector:
    """Labels, as kubectl has them."""
    try:
        found = selectors.parsed(text)
    except ObjectError:
        found = None
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} selects no labels; write for example workspace, or tier=paid")
    return found


def object_selector(text: str) -> LabelSelector:
    """Labels that leave workloads out."""
    found = selector(text)
    if not found.matches({}):
        raise argparse.ArgumentTypeError(
            f"{text!r}: a Scale has no labels, so that no autoscaler would be asked about; leave workloads out, "
            "as with '!legacy' or 'tier!=system'"
        )
    return found


def condition(text: str) -> webhook.Condition:
    """A name and an expression."""
    name, equals, expression = text.partition("=")
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", name) or not equals or not expression.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no condition; write for example not-by-ci=request.userInfo.username!='ci'"
        )
    if name in {one for one, _ in (*webhook.conditions(), *webhook.CLAMP_CONDITIONS)}:
        raise argparse.ArgumentTypeError(f"{name!r} is the name of a condition that is always there; choose another")
    return name, expression.strip()


def label_keys(text: str) -> tuple[str, ...]:
    """Keys of labels, with commas between them."""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    for key in keys:
        if not is_label_key(key):
            raise argparse.ArgumentTypeError(f"{key!r} is no key of a label; write for example tier,example.com/team")
    return keys

"""Flags of ``extauthz render webhook``."""

from __future__ import annotations

import argparse
import re

from extauthz.render.manifests import FORMATS
from extauthz.render.webhook import Custom, WebhookOptions

DEFAULTS = WebhookOptions()


EPILOG = """\
examples:
  extauthz render webhook --ca ca.crt | kubectl apply -f -
  extauthz render webhook --ca ca.crt --custom rollouts.argoproj.io --except-namespace monitoring
  extauthz render webhook --ca ca.crt --clamp | kubectl apply -f -
  extauthz render webhook --ca ca.crt --url https://127.0.0.1:9443     # beside the API server

The gate listens with `extauthz serve --webhook`. See docs/webhook.md."""


def add_parser(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "the webhook configurations for `extauthz serve --webhook`"
    parser = what.add_parser(
        "webhook",
        help=text,
        description=f"Prints {text}.",
        epilog=EPILOG,
    )
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
        help="Ask about the scale of this custom resource too. May be repeated.",
    )
    add(
        "--clamp",
        action="store_true",
        help="Also a MutatingWebhookConfiguration, which lowers counts where quotas have the mode Clamp.",
    )
    add("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


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

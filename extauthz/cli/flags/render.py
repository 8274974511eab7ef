"""Flags of ``extauthz render``: of what it prints, and of ``render envoy``."""

from __future__ import annotations

import argparse
import ipaddress
import re
from contextlib import suppress
from pathlib import Path

from extauthz.cli.flags import sidecar, types
from extauthz.core.errors import ObjectError
from extauthz.core.quota import selector_text
from extauthz.core.quota.selectors import LabelSelector, is_label_key
from extauthz.tools.render import certificates, webhook
from extauthz.tools.render.certificates import TlsOptions
from extauthz.tools.render.manifests import FORMATS
from extauthz.tools.render.options import CLIENTS, PARTS, MeshOptions, SidecarOptions
from extauthz.tools.render.webhook import Custom, WebhookOptions

# Flags of ``extauthz render istio`` and ``render istio-pod``.

ISTIO_DEFAULTS = MeshOptions()

_ip = types.reading(lambda text: str(ipaddress.ip_address(text)), "is no IP address")
days = types.whole(1, 825, "is no number of days from 1 to 825")


ISTIO_EPILOG = f"""\
{sidecar.PROFILES}
examples:
  extauthz render istio --service-ip "$(kubectl get service kubernetes -o jsonpath='{{.spec.clusterIP}}')" |
      kubectl apply -f -
  extauthz render istio-pod --client keda-operator > pod.yaml
  kubectl -n keda patch deployment keda-operator --patch-file pod.yaml

The filter comes first, as it does not hold for connections that are open already. See docs/istio.md."""


WHAT = {
    "istio": "an EnvoyFilter that has an autoscaler's Istio sidecar ask the gate",
    "istio-pod": "a patch of that autoscaler's Deployment: certificates and trust",
}


def add_parsers(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both; they take the same flags, so that what must agree can be given to both."""
    for name, text in WHAT.items():
        parser = what.add_parser(name, help=text, description=f"Prints {text}.", epilog=ISTIO_EPILOG)
        _mesh(parser.add_argument_group("mesh"))
        places = parser.add_argument_group("places")
        sidecar.add_places(places, ISTIO_DEFAULTS.sidecar, apiserver="the address of --service-ip, port 443")
        add = sidecar.Choices(places, ISTIO_DEFAULTS.sidecar)
        where = "Where Envoy finds what names its certificates, in annotations of the pod."
        add("--secrets", where, "DIR", "secrets_dir")
        places.add_argument(
            "--gate-plain", action="store_true", help="Plain text to the gate. Default: TLS on both sides."
        )
        sidecar.add_behaviour(parser.add_argument_group("behaviour"), ISTIO_DEFAULTS.sidecar)
        parser.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def _mesh(parser: argparse._ArgumentGroup) -> None:
    add = sidecar.Choices(parser, ISTIO_DEFAULTS, client="knative-autoscaler", namespace="its project's own")
    add(
        "--client",
        "Whose sidecar. hpa-controller: kube-controller-manager with that one controller (deploy/hpa-controller), "
        "by the profile scale.",
        choices=CLIENTS,
        default="knative-autoscaler",
    )
    add("--namespace", "Where it runs.", "NAME", type=types.namespace)
    add("--service-ip", "Address of the Service default/kubernetes.", "IP", type=_ip, default=ISTIO_DEFAULTS.service_ip)


# Flags of ``extauthz render tls``.

TLS_DEFAULTS = TlsOptions()


def _read_name(text: str) -> str | None:
    with suppress(ValueError):
        return str(ipaddress.ip_address(text))
    return text if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", text) else None


_name = types.reading(_read_name, "is neither a DNS name nor an address")


TLS_EPILOG = """\
issuers:
  files         a kustomization that makes Secrets of files, and in its comment the commands that make these
  cert-manager  Certificates and Issuers; cert-manager (https://cert-manager.io) makes and renews the Secrets

examples:
  extauthz render tls > kustomization.yaml    # then as it says
  extauthz render tls --issuer cert-manager --autoscaler hpa-controller | kubectl apply -f -
  extauthz render tls --issuer cert-manager --as deployment --name 10.96.0.1 --name kubernetes.default.svc

The Secrets are those that the chart names (charts/extauthz). See docs/render.md."""


def add_tls(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the certificates that Envoy and gate show"
    parser = what.add_parser("tls", help=text, description=f"Prints {text}.", epilog=TLS_EPILOG)
    add = parser.add_argument
    add("--issuer", choices=certificates.ISSUERS, default="files", help="Who makes them, see below. Default: files.")
    add(
        "--as",
        dest="form",
        choices=("sidecar", "deployment"),
        default="sidecar",
        help="Where the gate runs. deployment: also what Envoy and gate show each other. Default: sidecar.",
    )
    add("--autoscaler", choices=certificates.NAMESPACES, default="keda", help="Whose Envoy. Default: keda.")
    _places(parser)
    add("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


CERTIFICATE_EPILOG = """\
examples:
  extauthz render certificate certificates/gate extauthz.extauthz-system.svc    # a server's
  extauthz render certificate certificates/envoy                                # a client's

Run it again to renew: ca.crt and ca.key stay. Keep ca.key where nobody else can read it. With cert-manager see
`extauthz render tls`."""


def add_certificate(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "a certificate and its key, as files"
    told = "Writes FILE.crt and FILE.key, signed by ca.crt and ca.key of the same folder, which are made if missing."
    parser = what.add_parser("certificate", help=text, description=told, epilog=CERTIFICATE_EPILOG)
    parser.add_argument("file", metavar="FILE", type=Path, help="Where, without .crt; its folder is made.")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", type=_name, help="DNS names and addresses of a server. Default: a client's."
    )
    parser.add_argument("--days", type=days, default=825, help="How long it is valid. Default: 825.")
    parser.set_defaults(output="text")


def _places(parser: argparse.ArgumentParser) -> None:
    names = " and ".join(TLS_DEFAULTS.names)
    add = sidecar.Choices(parser, TLS_DEFAULTS, namespace="its project's own", names=names)
    add("--namespace", "Where it runs.", "NAME", type=types.namespace)
    dialled = "What the autoscaler dials: a DNS name or an address. May be repeated."
    add("--name", dialled, "NAME", "names", action="append", type=_name)
    add("--gate-namespace", "Where the gate's Service is.", "NAME", type=types.namespace)


# Flags of ``extauthz render webhook``.

WEBHOOK_DEFAULTS = WebhookOptions()


def _service(text: str) -> tuple[str, str, int] | None:
    found = re.fullmatch(r"([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc)?(?::(\d{1,5}))?", text)
    return (found[1], found[2], int(found[3] or WEBHOOK_DEFAULTS.port)) if found else None


def _custom(text: str) -> Custom | None:
    plural, _, group = text.partition(".")
    return Custom(group, plural) if plural and "." in group else None


def _selector(text: str) -> LabelSelector | None:
    with suppress(ObjectError):
        return selector_text.parsed(text)
    return None


def _label_keys(text: str) -> tuple[str, ...] | None:
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    return keys if all(map(is_label_key, keys)) else None


service = types.reading(_service, "is no Service; write for example extauthz.extauthz-system:443")
url = types.matching(r"https://[^/?#\s]+", "is not https://HOST:PORT, and an API server asks nothing else")
custom = types.reading(_custom, "names no custom resource; write for example rollouts.argoproj.io")
selector = types.reading(_selector, "selects no labels; write for example workspace, or tier=paid")
label_keys = types.reading(_label_keys, "is no list of keys of labels; write for example tier,example.com/team")

WEBHOOK_EPILOG = """\
examples:
  extauthz render webhook --ca ca.crt | kubectl apply -f -
  extauthz render webhook --ca ca.crt --custom rollouts.argoproj.io --except-namespace monitoring
  extauthz render webhook --ca ca.crt --namespace-selector workspace | kubectl apply -f -
  extauthz render webhook --ca ca.crt --namespace-selector workspace --webhook-pods
  extauthz render webhook --ca ca.crt --match-condition "not-by-ci=request.userInfo.username != 'ci'"
  extauthz render webhook --ca ca.crt --url https://127.0.0.1:9443     # beside the API server

The gate listens with `extauthz serve --webhook`. See docs/webhook.md."""


def add_webhook(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the webhook configurations for `extauthz serve --webhook`"
    parser = what.add_parser("webhook", help=text, description=f"Prints {text}.", epilog=WEBHOOK_EPILOG)
    add = parser.add_argument
    add(
        "--ca",
        metavar="FILE",
        help="PEM of the authority of the webhook's certificate. Default: none; cert-manager or "
        "a gate without `--webhook-cert` writes it.",
    )
    add("--service", type=service, metavar="NAME.NAMESPACE[:PORT]", help="Default: extauthz.extauthz-system:443.")
    add("--url", type=url, metavar="URL", help="In place of a Service: https://HOST:PORT.")
    add(
        "--except-namespace",
        dest="except_namespaces",
        action="append",
        metavar="NAME",
        help="Ask about nothing in it. May be repeated. kube-system and the gate's own are always left out.",
    )
    add(
        "--custom",
        type=custom,
        action="append",
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
        dest="conditions",
        type=condition,
        action="append",
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
    name, equals, expression = text.partition("=")
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", name) or not equals or not expression.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no condition; write for example not-by-ci=request.userInfo.username!='ci'"
        )
    if name in {one for one, _ in (*webhook.conditions(), *webhook.clamp_conditions())}:
        raise argparse.ArgumentTypeError(f"{name!r} is the name of a condition that is always there; choose another")
    return name, expression.strip()


DESCRIPTION = """\
Prints configuration for others that ask the gate. Manifests of the gate itself are a Helm chart, charts/extauthz, and
what it makes, deploy/ (docs/render.md)."""


DEFAULTS = SidecarOptions()


BOOTSTRAP = "bootstrap"


EPILOG = f"""\
{sidecar.PROFILES}
examples:
  extauthz render envoy > sidecar.yaml
  extauthz render envoy --part serving > /etc/extauthz/envoy/serving.yaml
  extauthz render envoy --part apiserver-ca > /etc/extauthz/envoy/apiserver-ca.yaml
  extauthz render envoy --profile scale --listen 127.0.0.1:6444 --apiserver 10.0.0.1:443 --apiserver-name 10.0.0.1
  extauthz render envoy --gate extauthz.extauthz-system.svc:9191 --gate-ca /etc/extauthz/gate/ca.crt
  extauthz render envoy --gate unix:/run/extauthz/gate.sock -o json

The bootstrap names a file in --secrets for each other part. With TLS to the gate there are gate-ca and, with a
certificate to show, gate-client too. Print each with the same options.

Check the result with `envoy --mode validate -c sidecar.yaml`; the files it names must exist for that."""


def add_render(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands_parser = commands.add_parser("render", description=DESCRIPTION)
    what = commands_parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    envoy = what.add_parser(
        "envoy",
        help="an Envoy between an autoscaler and the API server",
        description="Prints the configuration of an Envoy between an autoscaler and the API server, a part at a time.",
        epilog=EPILOG,
    )
    envoy.add_argument(
        "--part",
        choices=(BOOTSTRAP, *PARTS),
        default=BOOTSTRAP,
        help="What to print: the bootstrap, or what it finds a certificate or an authority by. Default: bootstrap.",
    )
    places = envoy.add_argument_group("places")
    add = sidecar.Choices(places, DEFAULTS)
    add("--listen", "Where the client connects.", "ADDR", type=sidecar.endpoint)
    sidecar.add_places(places, DEFAULTS)
    add("--secrets", "Where Envoy finds the other parts, as PART.yaml.", "DIR", "secrets_dir")
    add("--admin", "Envoy's admin page; it has no authentication.", "ADDR", type=sidecar.endpoint)
    sidecar.add_behaviour(envoy.add_argument_group("behaviour"), DEFAULTS)
    envoy.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
    add_parsers(what)
    add_certificate(what)
    add_tls(what)
    add_webhook(what)

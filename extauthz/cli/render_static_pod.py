"""``extauthz render static-pod``: an Envoy beside kube-controller-manager, and the way through it."""

from __future__ import annotations

import argparse

from extauthz.cli import render_kubernetes, sidecar_flags
from extauthz.render import static_pod
from extauthz.render.static_pod import NodeOptions

DEFAULTS = NodeOptions()

EPILOG = """\
parts, in the order of installation:
  account     for kubectl: whose token kube-controller-manager shows
  kubeconfig  a file on the node: its way through Envoy
  pod         a static pod: Envoy
  kubeadm     for the ClusterConfiguration: kube-controller-manager's own static pod with that kubeconfig

examples:
  extauthz render static-pod --part account | kubectl apply -f -
  extauthz render static-pod --part kubeconfig > /etc/kubernetes/extauthz/controller-manager.conf
  extauthz render static-pod > /etc/kubernetes/manifests/extauthz-envoy.yaml

Envoy's bootstrap and its other parts are `extauthz render envoy --profile scale --part PART`.
See docs/kube-controller-manager.md."""


def add_parser(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "an Envoy beside kube-controller-manager on a control plane node"
    parser = what.add_parser(
        "static-pod",
        help=text,
        description=f"Prints {text}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add, place = parser.add_argument, sidecar_flags.adder_of_places(parser.add_argument_group("places"))
    add("--part", choices=static_pod.PARTS, default="pod", help="See below. Default: pod.")
    add("--folder", default=DEFAULTS.folder, metavar="DIR", help=f"With its files. Default: {DEFAULTS.folder}.")
    listen = sidecar_flags.shown(DEFAULTS.listen)
    place("--listen", default=DEFAULTS.listen, help=f"Where Envoy listens. Default: {listen}.")
    add(
        "--apiserver-ca",
        dest="apiserver_ca_file",
        default=DEFAULTS.apiserver_ca_file,
        metavar="FILE",
        help=f"What Envoy verifies the API server by. Default: {DEFAULTS.apiserver_ca_file}.",
    )
    add("--envoy-image", default=DEFAULTS.envoy_image, metavar="IMAGE", help=f"Default: {DEFAULTS.envoy_image}.")
    add("-o", "--output", choices=render_kubernetes.FORMATS, default="yaml", help="Default: yaml.")
    parser.set_defaults(rendered=_rendered)


def _rendered(arguments: argparse.Namespace) -> str:
    if not arguments.listen.port:
        raise ValueError("--listen must be host:port: kube-controller-manager dials it")
    options = NodeOptions(
        folder=arguments.folder.rstrip("/"),
        listen=arguments.listen,
        apiserver_ca_file=arguments.apiserver_ca_file,
        envoy_image=arguments.envoy_image,
    )
    return render_kubernetes.FORMATS[arguments.output]([static_pod.PARTS[arguments.part](options)])

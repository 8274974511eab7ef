"""``extauthz render``: configuration for others that ask the gate, printed.

An Envoy before the API server, alone or in a mesh; its certificates; the configuration by which an API server asks.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any as Tree

from extauthz.cli import exits
from extauthz.cli.flags import render, sidecar
from extauthz.cli.flags.render import BOOTSTRAP, DEFAULTS
from extauthz.cli.flags.render import ISTIO_DEFAULTS as MESH_DEFAULTS
from extauthz.cli.flags.render import TLS_DEFAULTS as TLS_DEFAULTS
from extauthz.cli.flags.render import WEBHOOK_DEFAULTS as WEBHOOK_DEFAULTS
from extauthz.inputs.files import text
from extauthz.tools.render import certificates, clusters, envoy, istio, secrets, webhook
from extauthz.tools.render.certificates import TlsOptions
from extauthz.tools.render.manifests import FORMATS as MANIFESTS
from extauthz.tools.render.manifests import Part
from extauthz.tools.render.options import CLIENTS, GATE_CA, SERVICE_PORT, Endpoint, GateTls, MeshOptions, SidecarOptions
from extauthz.tools.render.webhook import WebhookOptions

FORMATS = {"yaml": envoy.to_yaml, "json": envoy.to_json}

HEADER = "# Made by `{}`; change its options rather than this file.\n"


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    try:
        fill_in(arguments, arguments.sections)
        text: str = RENDERED[arguments.what](arguments)
    except ValuesError as error:
        return exits.fail(exits.DATA, error)
    except ValueError as error:
        sys.stderr.write(f"extauthz render {arguments.what}: {error}\n")
        return exits.USAGE
    header = HEADER.format(shlex.join(["extauthz", *arguments.words])) if arguments.output == "yaml" else ""
    sys.stdout.write(header + text)
    return 0


def _envoy(arguments: argparse.Namespace) -> str:
    options = sidecar_options(arguments, DEFAULTS)
    to_text = FORMATS[arguments.output]
    if arguments.part == BOOTSTRAP:
        return to_text(envoy.sidecar(options))
    files = secrets.files(options)
    if arguments.part not in files:
        flags = "--gate-ca" if arguments.part == GATE_CA else "--gate-ca, --gate-cert and --gate-key"
        raise ValueError(f"--part {arguments.part} is for TLS to the gate: add {flags}, or leave it out")
    return to_text(files[arguments.part])


def sidecar_options(arguments: argparse.Namespace, defaults: SidecarOptions) -> SidecarOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    said = {name: value for name, value in vars(arguments).items() if value is not None}
    chosen = {field.name: said[field.name] for field in fields(SidecarOptions) if field.name in said}
    _only_one_kind([chosen.get("gate", defaults.gate), *chosen.get("failover_gates", ())])
    return replace(defaults, **chosen, gate_tls=_gate_tls(said, defaults.gate_tls))


def _only_one_kind(gates: Sequence[Endpoint]) -> None:
    """Envoy resolves all addresses of a cluster, or none; a socket has no name."""
    sockets = [one for one in gates if one.path]
    names = [one for one in gates if not one.path and not clusters.is_ip(one.host)]
    if sockets and names:
        raise ValueError(
            f"--gate-failover: {sidecar.shown(sockets[0])} and the name {sidecar.shown(names[0])} do not go together"
        )


def _gate_tls(said: Mapping[str, str], default: GateTls | None) -> GateTls | None:
    """Half of it is refused: else Envoy would speak plain text to a gate that expects TLS."""
    wanted = {field.name: said[f"gate_{field.name}"] for field in fields(GateTls) if f"gate_{field.name}" in said}
    if ("cert_file" in wanted) != ("key_file" in wanted):
        raise ValueError("--gate-cert and --gate-key go together")
    if default is not None:
        return replace(default, **wanted)
    if "ca_file" in wanted:
        return GateTls(**{"server_name": sidecar.GATE_NAME} | wanted)
    if "cert_file" in wanted:
        raise ValueError("--gate-cert needs --gate-ca: the gate is verified before it is shown a certificate")
    return None


RENDER: dict[str, Callable[[MeshOptions], dict[str, Tree]]] = {
    "istio": istio.envoy_filter,
    "istio-pod": istio.pod_patch,
}


def _istio(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    return MANIFESTS[arguments.output]([Part("", [RENDER[arguments.what](_mesh_options(arguments))])])


def _mesh_options(arguments: argparse.Namespace) -> MeshOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    client = CLIENTS[arguments.client]
    defaults = replace(
        MESH_DEFAULTS.sidecar,
        profile=client.profile,
        apiserver=Endpoint(arguments.service_ip, SERVICE_PORT),
        gate_tls=None if arguments.gate_plain else MESH_DEFAULTS.sidecar.gate_tls,
    )
    sidecar = sidecar_options(arguments, defaults)
    if arguments.gate_plain and sidecar.gate_tls is not None:
        raise ValueError("--gate-plain and --gate-ca exclude each other")
    return MeshOptions(
        client=client._replace(namespace=arguments.namespace or client.namespace),
        service_ip=arguments.service_ip,
        sidecar=sidecar,
        client_facing=arguments.client_facing,
        gate_facing=arguments.gate_facing,
        trusted=arguments.trusted,
    )


def _tls_options(arguments: argparse.Namespace) -> TlsOptions:
    """What was asked for, over the defaults."""
    return replace(
        TLS_DEFAULTS,
        client_namespace=arguments.namespace or certificates.NAMESPACES[arguments.autoscaler],
        names=tuple(arguments.names or TLS_DEFAULTS.names),
        client_facing=arguments.client_facing,
        service=arguments.form == "deployment",
        gate_namespace=arguments.gate_namespace,
        authority_namespace=arguments.authority_namespace,
        days=arguments.days,
    )


def _tls(arguments: argparse.Namespace) -> str:
    """What is asked for."""
    return MANIFESTS[arguments.output](certificates.ISSUERS[arguments.issuer](_tls_options(arguments)))


def _webhook(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    of = WEBHOOK_DEFAULTS
    if arguments.pods and arguments.namespace_selector == of.namespace_selector:
        raise ValueError(
            "--webhook-pods needs --namespace-selector, such as workspace: while no gate lives such pods fail in all "
            "namespaces that are asked about, so ask only where quotas are"
        )
    name, namespace, port = arguments.service or (of.service, of.namespace, of.port)
    options = WebhookOptions(
        ca=_ca(arguments.ca),
        service=name,
        namespace=namespace,
        port=port,
        url=arguments.url or "",
        except_namespaces=tuple(arguments.except_namespace),
        namespace_selector=arguments.namespace_selector,
        object_selector=arguments.object_selector,
        conditions=tuple(arguments.match_condition),
        workload_labels=arguments.workload_labels,
        custom=tuple(arguments.custom),
        pods=arguments.pods,
        clamp=arguments.clamp,
    )
    return MANIFESTS[arguments.output](webhook.parts(options))


def _ca(name: str | None) -> bytes:
    if name is None:
        return b""
    try:
        found = Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"--ca: {name}: {error.strerror}") from None
    if b"-----BEGIN CERTIFICATE-----" not in found:
        raise ValueError(f"--ca: {name} holds no certificate in PEM")
    return found


RENDERED: Mapping[str, Callable[[argparse.Namespace], str]] = {
    "envoy": _envoy,
    **dict.fromkeys(RENDER, _istio),
    "tls": _tls,
    "webhook": _webhook,
    "schema": lambda arguments: schema(arguments.sections),
}


# ``--values FILE`` of every ``extauthz render``, and the schema of such a file: both made of the flags themselves.
#
# The file has a section a command, with the flags without their dashes as keys. What is said on the command line
# wins.

KINDS: dict[object, str] = {render.days: "integer", sidecar.duration: "number"}
"""What JSON Schema calls the values of flags that are no strings."""

NOT_IN_A_FILE = ("help", "values")


class ValuesError(Exception):
    """The file is wrong. The message names file, key and cure."""


def fill_in(arguments: argparse.Namespace, sections: Iterable[str]) -> None:
    """Give *arguments* what the file says and the command line does not.

    Raises:
        ValuesError: the file, a section or a key is wrong.
    """
    if arguments.values is None:
        return
    where = str(arguments.values)
    options = _options(arguments.parser)
    section = _section(where, _read(arguments.values), arguments.what, sections)
    for key, value in section.items():
        place = f"{where}: {arguments.what}.{key}"
        if key not in options:
            raise ValuesError(f"{place}: no such option{_did_you_mean(str(key), options)}")
        if not _said(arguments.words, options[key]):
            setattr(arguments, options[key].dest, _value(place, options[key], value))


def schema(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """JSON Schema (https://json-schema.org/draft/2020-12) of the file."""
    sections = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: _described(action) for key, action in _options(parser).items()},
        }
        for name, parser in parsers.items()
    }
    tree = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of extauthz render",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
    }
    return json.dumps(tree, indent=2) + "\n"


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Each flag by its name in a file."""
    named = {_name(action): action for action in parser._actions if action.option_strings}
    return {name: action for name, action in named.items() if name not in NOT_IN_A_FILE}


def _name(action: argparse.Action) -> str:
    """Its last spelling; of a flag that has a ``--no-`` form, the other one."""
    spelled = [one for one in action.option_strings if not one.startswith("--no-")]
    return (spelled or action.option_strings)[-1].lstrip("-")


def _read(path: Path) -> object:
    try:
        return text.document(path.read_bytes())
    except OSError as error:
        raise ValuesError(f"--values: {path}: {error.strerror}") from None
    except text.TextError as error:
        raise ValuesError(f"{path}:{error.line}: {error.detail}") from None


def _section(where: str, tree: object, name: str, sections: Iterable[str]) -> dict[str, Tree]:
    known = list(sections)
    if not isinstance(tree, dict):
        raise ValuesError(f"{where}: must hold a mapping; write for example `{name}: {{…}}`")
    for strange in (key for key in tree if key not in known):
        raise ValuesError(f"{where}: {strange}: no such section{_did_you_mean(str(strange), known)}")
    section = tree.get(name) or {}
    if not isinstance(section, dict):
        raise ValuesError(
            f"{where}: {name}: must be a mapping of options; write for example `{name}: {{output: yaml}}`"
        )
    return section


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"


def _said(words: Iterable[str], action: argparse.Action) -> bool:
    long = [each for each in action.option_strings if each.startswith("--")]
    short = tuple(each for each in action.option_strings if not each.startswith("--"))
    return any(word.partition("=")[0] in long or word.startswith(short) for word in words)


def _value(place: str, action: argparse.Action, value: object) -> object:
    """The value as argparse would have made it of a word."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValuesError(f"{place}: {value!r} is neither true nor false")
        return value
    if not isinstance(action, argparse._AppendAction):
        return _one(place, action, value)
    if not isinstance(value, list):
        raise ValuesError(f"{place}: must be a list: write [one, another]")
    return [_one(place, action, each) for each in value]


def _one(place: str, action: argparse.Action, value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValuesError(f"{place}: {value!r} is no text or number; quote it, or leave the key out for its default")
    text = str(value)
    made: object = text
    try:
        made = action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise ValuesError(f"{place}: {error}") from None
    except ValueError:
        pass  # an enumeration: its choices are told below
    if action.choices is not None and made not in action.choices:
        raise ValuesError(f"{place}: {value!r} is none of {', '.join(map(str, action.choices))}")
    return made


def _described(action: argparse.Action) -> dict[str, Tree]:
    one: dict[str, Tree] = {"type": "boolean" if action.nargs == 0 else KINDS.get(action.type, "string")}
    if action.choices is not None:
        one["enum"] = [str(choice) for choice in action.choices]
    told = {"description": action.help or ""}
    if isinstance(action, argparse._AppendAction):
        return {"type": "array", "items": one} | told
    return one | told

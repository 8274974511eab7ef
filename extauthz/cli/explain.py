"""``extauthz explain``: why an autoscaler leaves a workload at its count, or where it takes it next."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from extauthz.cli import asking, exits, explain_cluster, explain_report, options, report
from extauthz.cluster.snapshot import SnapshotBuilder
from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.quantities import QuantityError
from extauthz.core.resourcelists import FootprintError
from extauthz.explain import flags as controller
from extauthz.explain import specs, target
from extauthz.explain.changes import changes
from extauthz.explain.decide import at_tolerance, decide, scene_of
from extauthz.explain.flags import Flags
from extauthz.explain.objects import ExplainError, Objects, milli
from extauthz.explain.specs import Scene
from extauthz.files import content
from extauthz.files.objects import objects as placed
from extauthz.kube.connection import ApiError, Unreachable
from extauthz.kube.credentials import NoClusterError
from extauthz.servers.api.problems import Problem
from extauthz.servers.api.shown import named
from extauthz.service.loading import SettingsError
from extauthz.service.settings import policy
from extauthz.sources import file as quota_file

UNKNOWN = 2

DESCRIPTION = """\
Says why a HorizontalPodAutoscaler (HPA) leaves a workload at its count, or where it takes it next: one sentence, then
the arithmetic step by step, as kube-controller-manager does it. Then it says what would have to change for one replica
more, and what the quota says. A step is `certain` if it follows from the objects, and `likely` if it needs what only
the controller remembers, or pods and metrics that are not given. It only reads."""

EPILOG = f"""\
examples:
  extauthz explain hpa/web -n shop
  extauthz explain deploy/web -n shop --server http://127.0.0.1:9192
  kubectl get hpa,deploy,pods,podmetrics,ns -A -o yaml > state.yaml
  extauthz explain hpa/web -n shop --state state.yaml --quotas quotas/
  extauthz explain hpa/web -n shop --at cpu=83
  extauthz explain hpa/web -n shop --tolerance up=0.05 -o json

flags of kube-controller-manager (--controller): {", ".join(controller.names())}

exit codes: 0 the HPA gets what its metrics ask for, 1 something holds it back (the sentence says what), 2 what it
depends on is not among the objects, 64 wrong usage, 65 a file is wrong, 69 no cluster or server"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("explain", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("what", type=_what, metavar="KIND/NAME", help="Such as hpa/web, or what it scales: deploy/web.")
    parser.add_argument("-n", "--namespace", required=True, help="Its namespace.")
    where = parser.add_argument_group("where the objects are", "Without --state they are read from the cluster.")
    where.add_argument(
        "--state",
        type=Path,
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="Objects as kubectl prints them, metrics among them if they are saved. May be repeated.",
    )
    where.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or the pod's own account."
    )
    ask = parser.add_argument_group("what if")
    ask.add_argument("--at", action="append", default=[], metavar="METRIC=VALUE", help="Another value: cpu=83.")
    ask.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="[up=|down=]N",
        help="Another flag: 0.05. Fields of the HPA win over it; up=0.05 and down=0.05 stand for those.",
    )
    ask.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="A flag of kube-controller-manager. Default: as its pod has it, if that is seen; else its own default.",
    )
    quota = parser.add_argument_group("what the quota says")
    quota.add_argument("--server", metavar="URL", help="A gate that runs, by its --http address.")
    quota.add_argument("--quotas", type=Path, metavar="FILE|DIR", help="WorkspaceQuota objects; with --state.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="Default: text.")
    options.add(parser, asking.SETTINGS)


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code tells whether something holds it back."""
    try:
        objects, now = _objects(arguments)
        return _explained(arguments, objects, now)
    except (NoClusterError, ApiError, Unreachable) as error:
        return exits.fail(exits.UNAVAILABLE, error)
    except ExplainError as error:
        return exits.fail(UNKNOWN, error)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        text = f"an object is not as kubectl prints it: {type(error).__name__}: {error}"
        return exits.fail(exits.DATA, ValueError(text))


def _explained(arguments: argparse.Namespace, objects: Objects, now: float) -> int:
    hpa = _hpa(objects, arguments.namespace, *arguments.what)
    scene = _with_fields(scene_of(objects, hpa, _flags(arguments, objects), now), arguments.tolerance)
    answer = decide(scene, _values(hpa, arguments.at))
    would = changes(scene, answer) if not arguments.at else []
    found = explain_report.shown(scene, answer, would, _quota(arguments, objects, scene, answer.desired))
    sys.stdout.write(report.as_json(found) if arguments.output == "json" else explain_report.as_text(found))
    return 1 if found["held"] else 0


def _objects(arguments: argparse.Namespace) -> tuple[Objects, float]:
    """All of them, and the time that they are of."""
    if not arguments.state:
        if arguments.quotas is not None:
            raise SettingsError("--quotas needs --state; with a cluster ask a gate that runs: --server URL")
        kind, name = arguments.what
        reading = explain_cluster.read(arguments.kubeconfig, arguments.namespace, kind, name)
        return asyncio.run(reading), time.time()
    if arguments.kubeconfig is not None:
        raise SettingsError("--state and --kubeconfig are two places; leave one of them out")
    contents = [one for path in arguments.state for one in content.read(path)]
    now = max(Path(one.name).stat().st_mtime for one in contents)
    return Objects(each.tree for one in contents for each in placed(one)), now


def _what(text: str) -> tuple[str, str]:
    """``hpa`` or a plural, and a name."""
    kind, slash, name = text.partition("/")
    if slash and name and kind.lower() in ("hpa", "horizontalpodautoscaler", "horizontalpodautoscalers"):
        return "hpa", name
    return asking.workload(text)[1], name


def _hpa(objects: Objects, namespace: str, kind: str, name: str) -> Tree:
    """The one that is asked for, or that scales the workload.

    Raises:
        ExplainError: there is none.
    """
    if kind == "hpa":
        found = objects.one("HorizontalPodAutoscaler", namespace, name)
        if found is None:
            raise ExplainError(f"there is no hpa/{name} in namespace {namespace}")
        return found
    for hpa in objects.of("HorizontalPodAutoscaler", namespace):
        ref = hpa["spec"]["scaleTargetRef"]
        if ref["name"] == name and target.plural(ref["kind"]) == kind:
            return hpa
    raise ExplainError(f"no HPA scales {kind} {namespace}/{name}; it stays at its count until somebody changes it")


def _values(hpa: Tree, texts: list[str]) -> dict[str, int]:
    known = {one.name: one for one in specs.of_hpa(hpa)}
    values = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if name not in known:
            raise SettingsError(f"--at {text}: the HPA has no metric {name!r}; it has {', '.join(known)}")
        try:
            is_percent = known[name].measure == "Utilization"
            values[name] = int(value.rstrip(" %")) if is_percent else milli(value)
        except (ValueError, QuantityError):
            raise SettingsError(f"--at {text}: write for example cpu=83, or queue=1500") from None
    return values


def _flags(arguments: argparse.Namespace, objects: Objects) -> Flags:
    """Of the controller: its pod's, then those that are given."""
    for text in arguments.controller:
        name = text.lstrip("-").removeprefix(controller.PREFIX).partition("=")[0]
        if name not in controller.names():
            raise SettingsError(f"--controller {text}: there are {', '.join(controller.names())}")
    plain = [f"tolerance={text}" for text in arguments.tolerance if "=" not in text]
    try:
        return controller.of_cluster(objects).with_texts([*arguments.controller, *plain])
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _with_fields(scene: Scene, texts: list[str]) -> Scene:
    for text in texts:
        way, given, value = text.partition("=")
        if not given:
            continue
        try:
            scene = at_tolerance(scene, **{{"up": "up", "down": "down"}[way]: float(value)})
        except (KeyError, ValueError):
            raise SettingsError(f"--tolerance {text}: write 0.05, up=0.05 or down=0.05") from None
    return scene


def _quota(arguments: argparse.Namespace, objects: Objects, scene: Scene, desired: int) -> dict[str, Any] | None:
    """What the gate says to one replica more, and to the count that the HPA wants."""
    if arguments.server is None and arguments.quotas is None:
        return None
    kind = target.plural(scene.target.kind)
    group = str(scene.hpa["spec"]["scaleTargetRef"].get("apiVersion", "")).rpartition("/")[0]
    ref = WorkloadRef(group, kind, scene.namespace, scene.target.name)
    source = asking.Server(arguments.server) if arguments.server else asking.Files(_gate(arguments, objects))
    wanted = max(desired, scene.target.asked + 1)
    try:
        decision = source.decision(named(ref) | {"replicas": wanted})
        return {"asked": wanted, "decision": decision, "headroom": source.headroom(ref)}
    except Problem as problem:
        raise ExplainError(f"what the quota says is not known: {problem}") from None


def _gate(arguments: argparse.Namespace, objects: Objects) -> Gate:
    """A gate that knows what the files say."""
    made = Gate(policy(options.settings(arguments)))
    made.load_quotas(quota_file.load(arguments.quotas).tree, 0.0)
    builder = SnapshotBuilder()
    try:
        for tree in objects.all():
            if tree.get("kind"):
                builder.add(tree)
    except (ObjectError, FootprintError) as error:
        raise SettingsError(f"--state: {error}") from None
    made.load_state(builder.state(), 0.0)
    return made

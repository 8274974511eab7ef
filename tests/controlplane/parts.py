"""The binaries of a real control plane: which versions, and where they are found.

``make controlplane`` (``tests/controlplane/build.py``) builds what is not found.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MODULES_FOLDER = Path(__file__).parent / "modules"
VERSION_WITHIN_S = 30.0

MANDATORY, OLDER = "controlplane", "older"
"""Targets of the Makefile: what CI always has, and earlier releases of what it has."""

GROUP = ("etcd", "kube-apiserver", "kubectl")
"""What a folder of envtest holds (``sigs.k8s.io/controller-runtime/pkg/envtest``)."""

ON_A_NODE = ("kubelet", "kube-proxy", "kube-scheduler", "kubeadm")
CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
CLUSTER = (*ON_A_NODE, *CONTAINERD, "coredns", "metrics-server")
"""What a cluster with pods has beside the control plane (tests/cluster)."""

SERVING = ("controller", "webhook", "activator")
"""What Knative has beside its autoscaler. As parts they are ``knative-controller`` and so on."""

HIDDEN = "PARTS_MISSING"
"""Names of parts, of programs and of markers, or ``all``: what is here is taken for missing. ``PARTS_MISSING=all make
test`` tests what a machine has where nothing is built or installed, anywhere."""


class MissingError(FileNotFoundError):
    """A part that is nowhere. The message says what would cure it."""


@dataclass(frozen=True)
class Part:
    """One binary."""

    name: str
    package: str
    """Its Go main package."""
    says_version: tuple[str, ...] = ()
    """Arguments that make it print its version; without any it is not looked for on PATH."""

    @property
    def variable(self) -> str:
        """The environment variable that holds its path."""
        return self.name.upper().replace("-", "_").replace(".", "_")


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and what is built of it."""

    folder: str
    parts: tuple[Part, ...] = ()
    """None: only its ``configs`` are wanted."""
    ldflags: str = ""
    """``{version}`` in them is replaced."""
    configs: tuple[str, ...] = ()
    """Go modules of which a folder (custom resource definitions, config maps) is kept beside the binaries."""
    config_folders: tuple[str, ...] = ("config",)
    """Of each of them; what they hold is put side by side."""
    optional: bool = False
    """Built and required only where it is named."""
    target: str = MANDATORY
    """Of the Makefile: what builds it."""

    @property
    def source(self) -> Path:
        return MODULES_FOLDER / self.folder

    @functools.cached_property
    def version(self) -> str:
        """The version of the one module that go.mod asks for, as ``v1.36.3``."""
        (version,) = re.findall(r"^require \S+ (v\S+)$", (self.source / "go.mod").read_text(), re.MULTILINE)
        return str(version)

    @property
    def cure(self) -> str:
        """What builds it."""
        return f"run `make {self.target}` (tests/controlplane/README.md)"

    @property
    def cache(self) -> Path:
        """Where it is built: another version, another go.mod or other flags are another folder."""
        digest = hashlib.sha256(self.ldflags.encode())
        for file in (self.source / "go.mod", *sorted(self.source.glob("*.go"))):
            digest.update(file.read_bytes())
        return cache_root() / self.folder / f"{self.version}-{digest.hexdigest()[:12]}"


def _knative(version: str, target: str = MANDATORY) -> Module:
    autoscaler = Part(f"autoscaler-{version}", "knative.dev/serving/cmd/autoscaler")
    configs = ("knative.dev/serving", "knative.dev/networking")
    folder = f"knative-{version}"
    return Module(folder, (autoscaler,), configs=configs, optional=target != MANDATORY, target=target)


def _decider(version: str, target: str = MANDATORY) -> Module:
    """Knative's own arithmetic, asked without a cluster."""
    name = f"decider-{version}"
    return Module(name, (Part(name, "."),), optional=target != MANDATORY, target=target)


def _istiod(name: str, target: str) -> Module:
    part = Part(name, "istio.io/istio/pilot/cmd/pilot-discovery")
    folders = ("manifests/charts/base/files",)
    return Module(name, (part,), configs=("istio.io/istio",), config_folders=folders, optional=True, target=target)


_HELM = "-X helm.sh/helm/v3"
_HELM_FLAGS = " ".join(
    (
        f"{_HELM}/internal/version.version={{version}}",
        # Without a cluster Helm takes this one for granted, as its Makefile has it; else it is 1.20.
        *(
            f"{_HELM}/{room}.k8sVersion{each}"
            for room in ("pkg/chartutil", "pkg/lint/rules")
            for each in ("Major=1", "Minor=37")
        ),
    )
)

# Without it the server calls itself v0.0.0-master, and clients that ask for a minimum refuse it.
_KUBERNETES_FLAGS = "-X k8s.io/component-base/version.gitVersion={version}"

MODULES: tuple[Module, ...] = (
    Module("etcd", (Part("etcd", "go.etcd.io/etcd/server/v3", ("--version",)),)),
    Module(
        "kubernetes",
        (
            Part("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", ("--version",)),
            Part("kubectl", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
            Part("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", ("--version",)),
        ),
        ldflags=_KUBERNETES_FLAGS,
    ),
    Module(
        "kubernetes",
        tuple(Part(name, f"k8s.io/kubernetes/cmd/{name}") for name in ON_A_NODE),
        ldflags=_KUBERNETES_FLAGS,
        optional=True,
        target="cluster",
    ),
    Module(
        "containerd",
        tuple(Part(name, f"github.com/containerd/containerd/v2/cmd/{name}") for name in CONTAINERD),
        optional=True,
        target="cluster",
    ),
    Module("coredns", (Part("coredns", "github.com/coredns/coredns"),), optional=True, target="cluster"),
    Module(
        "metrics-server",
        (Part("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"),),
        optional=True,
        target="cluster",
    ),
    Module(
        "registry",
        (Part("registry", "github.com/distribution/distribution/v3/cmd/registry"),),
        optional=True,
        target="mesh",
    ),
    Module("hey", (Part("hey", "github.com/rakyll/hey"),), optional=True, target="mesh"),
    Module("definitions-1.30", (Part("definitions-1.30", "."),), optional=True, target=OLDER),
    _knative("v0.50.0"),
    Module("knative-v0.50.0", (Part("queue-proxy", "knative.dev/serving/cmd/queue"),), optional=True, target="mesh"),
    _knative("v0.42.2", OLDER),
    _decider("v0.50.0"),
    _decider("v0.42.2", OLDER),
    Module("cert-manager", configs=("github.com/cert-manager/cert-manager",), config_folders=("deploy/crds",)),
    _istiod("istiod", "istiod"),
    _istiod("istiod-1.30", OLDER),
    Module(
        "pilot-agent",
        (Part("pilot-agent", "istio.io/istio/pilot/cmd/pilot-agent"),),
        configs=("istio.io/istio",),
        config_folders=("manifests/charts", "tools/packaging/common"),
        optional=True,
        target="mesh",
    ),
    Module(
        "knative-controllers-v0.50.0",
        tuple(Part(f"knative-{name}", f"knative.dev/serving/cmd/{name}") for name in SERVING),
        configs=("knative.dev/caching",),
        optional=True,
        target="mesh",
    ),
    Module(
        "keda",
        (
            Part("keda-operator", "github.com/kedacore/keda/v2/cmd/operator"),
            Part("keda-adapter", "github.com/kedacore/keda/v2/cmd/adapter"),
        ),
        configs=("github.com/kedacore/keda/v2",),
        config_folders=("config/crd/bases",),
        optional=True,
        target="keda",
    ),
    Module(
        "helm",
        (Part("helm", "helm.sh/helm/v3/cmd/helm", ("version", "--template={{.Version}}")),),
        ldflags=_HELM_FLAGS,
        optional=True,
        target="helm",
    ),
    Module(
        "actionlint", (Part("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),), optional=True, target="helm"
    ),
    Module("h2spec", (Part("h2spec", "github.com/summerwind/h2spec/cmd/h2spec"),), optional=True, target="h2spec"),
)

_BY_NAME: Mapping[str, tuple[Module, Part]] = {part.name: (module, part) for module in MODULES for part in module.parts}

NAMES = tuple(_BY_NAME)
"""All parts: etcd, kube-apiserver, kubectl, kube-controller-manager, autoscaler-v0.50.0, autoscaler-v0.42.2,
decider-v0.50.0, decider-v0.42.2, definitions-1.30, istiod (of Istio 1.31), istiod-1.30, pilot-agent,
knative-controller, knative-webhook, knative-activator, queue-proxy, keda-operator, keda-adapter, helm, actionlint,
h2spec, hey, registry, and those of ``CLUSTER``."""

OPTIONAL = frozenset(part.name for module, part in _BY_NAME.values() if module.optional)
"""Those that ``make controlplane`` leaves out."""


def cache_root() -> Path:
    """``extauthz/controlplane`` in the user's cache directory (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "extauthz" / "controlplane"


def hidden(name: str) -> bool:
    """Whether ``PARTS_MISSING`` takes it for missing."""
    return not {"all", name}.isdisjoint(os.environ.get(HIDDEN, "").replace(",", " ").split())


def find(name: str) -> Path:
    """The path of a part. What someone named explicitly wins, whatever its version.

    In this order: the variable (``KUBE_APISERVER``), the folder ``KUBEBUILDER_ASSETS`` as envtest has it, PATH if the
    version is the one wanted, the cache of ``make controlplane``.

    Raises:
        MissingError: it is nowhere or hidden, or a variable names a file that is not there; with the cure.
    """
    module, part = _BY_NAME[name]
    built = module.cache / name
    if not hidden(name):
        if explicit := _explicit(part):
            return explicit
        if on_path := _on_path(part, module.version):
            return on_path
        if built.is_file():
            return built
    raise MissingError(f"{name} {module.version} is not here: {module.cure}, or set {part.variable}")


def version(name: str) -> str:
    """The version of a part that is wanted here."""
    return _BY_NAME[name][0].version


def missing(names: Sequence[str]) -> list[str]:
    """Why parts, or what is kept of a module without any, cannot be had: a sentence each; empty if all are there."""
    reasons = []
    for name in names:
        try:
            find(name) if name in _BY_NAME else config(name)
        except MissingError as error:
            reasons.append(str(error))
    return reasons


def config(name: str) -> Path:
    """The folder with what is kept of Go modules for a part, or for a module without parts, by their last names:
    ``serving/``, ``networking/``.

    Raises:
        MissingError: it was not built here, or is hidden; with the cure.
    """
    (module,) = (each for each in MODULES if name in (*(part.name for part in each.parts), each.folder))
    folder = module.cache / "config"
    if hidden(name) or not folder.is_dir():
        raise MissingError(f"the config files of {name} are not here: {module.cure}")
    return folder


def _explicit(part: Part) -> Path | None:
    if value := os.environ.get(part.variable):
        path = Path(value)
        if not path.is_file():
            raise MissingError(f"{part.variable}={value}: no such file")
        return path.absolute()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and part.name in GROUP:
        path = Path(assets) / part.name
        return path.absolute() if path.is_file() else None
    return None


def _on_path(part: Part, version: str) -> Path | None:
    path = shutil.which(part.name) if part.says_version else None
    if path is None or version.removeprefix("v") not in _said(path, part.says_version):
        return None
    return Path(path)


@functools.cache
def _said(path: str, arguments: tuple[str, ...]) -> frozenset[str]:
    """The words that a binary prints, none if it cannot be run; versions without their ``v``."""
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=VERSION_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(word.removeprefix("v") for word in done.stdout.split())

"""What a machine must have for a cluster of its own, besides what Go builds."""

from __future__ import annotations

import os
import subprocess

from tests.compose import marker
from tests.controlplane import netns, parts

PLUGINS = "/usr/lib/cni"
"""Programs that give pods their network."""
PACKAGES = {
    "unshare": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
    f"{PLUGINS}/ptp": "containernetworking-plugins",
}
"""Program → Debian's package."""
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
NEEDED = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "helm", *parts.CLUSTER)
CURE = "run `make cluster-parts` (tests/cluster/README.md)"


def sentence() -> str:
    """The first thing that is missing, with the cure; empty if all is here."""
    if parts.hidden("cluster"):
        return f"a cluster's parts are not here: {CURE}"
    if os.geteuid():
        return "only root may run a kubelet and containers here"
    if absent := netns.absent(PACKAGES):
        return f"{', '.join(absent)}: not here; {CURE}"
    if reasons := parts.missing(NEEDED):
        return reasons[0]
    if reason := marker.missing("image"):
        return reason
    tried = subprocess.run(
        [*NAMESPACES, "true"], capture_output=True, text=True, timeout=30, check=False, env=netns.environment()
    )
    return f"no namespaces of its own here: {tried.stderr.strip()}" if tried.returncode else ""

"""Files as the kubelet keeps them for a pod: of a Secret or a ConfigMap, replaced all at once, and of annotations."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from .certs import LOOPBACK_NAMES, Authority

Tree: TypeAlias = Any

OF_ANNOTATION = re.compile(r"metadata\.annotations\['(.+)'\]")


class Volume:
    """``..data`` leads to a folder, each file to one in ``..data``; an update moves ``..data`` (``AtomicWriter`` in
    ``k8s.io/kubernetes/pkg/volume/util``), and what was there before is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._numbers = itertools.count(1)

    def __getitem__(self, name: str) -> str:
        """The path of a file, as whoever mounts the volume names it."""
        return str(self.folder / name)

    def put(self, **files: bytes) -> None:
        """Replace its content. ``tls_crt`` is the file ``tls.crt``."""
        data, before = self.folder / "..data", (self.folder / "..data").resolve()
        new = self.folder / f"..{next(self._numbers)}"
        new.mkdir()
        for word, content in files.items():
            (new / word.replace("_", ".")).write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(data)
        for file in new.iterdir():
            if not (self.folder / file.name).is_symlink():
                (self.folder / file.name).symlink_to(Path("..data", file.name))
        if before != data:
            shutil.rmtree(before)

    def issue(
        self, authority: Authority, trusted: bytes | None = None, names: tuple[str, ...] = LOOPBACK_NAMES
    ) -> None:
        """Another pair of the authority. ``ca.crt`` has that authority, unless another one is given."""
        pair = authority.issue(f"{self.folder.name}-{next(self._numbers)}", names)
        ca = authority.ca.read_bytes() if trusted is None else trusted
        self.put(tls_crt=pair.cert.read_bytes(), tls_key=pair.key.read_bytes(), ca_crt=ca)


def of_annotations(template: Tree) -> Iterator[tuple[str, str]]:
    """Each file that a pod's Istio sidecar has from the pod's annotations, and what is in it: by a volume of the
    downward API (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/)."""
    annotations = template["metadata"]["annotations"]
    mounts = json.loads(annotations["sidecar.istio.io/userVolumeMount"])
    folders = {each["name"]: each["mountPath"] for each in mounts}
    for volume in json.loads(annotations["sidecar.istio.io/userVolume"]):
        for item in volume.get("downwardAPI", {}).get("items", []):
            found = OF_ANNOTATION.fullmatch(item["fieldRef"]["fieldPath"])
            assert found is not None, item
            yield f"{folders[volume['name']]}/{item['path']}", annotations[found[1]]

"""A folder of files that are replaced all at once, as the kubelet keeps the volume of a Secret or a ConfigMap."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from .certs import Authority


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

    def issue(self, authority: Authority, trusted: bytes | None = None) -> None:
        """Another pair of the authority; in ``ca.crt`` what is trusted: that authority, unless told otherwise."""
        pair = authority.issue(f"{self.folder.name}-{next(self._numbers)}")
        ca = authority.ca.read_bytes() if trusted is None else trusted
        self.put(tls_crt=pair.cert.read_bytes(), tls_key=pair.key.read_bytes(), ca_crt=ca)

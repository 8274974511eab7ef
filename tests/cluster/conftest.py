"""One cluster for all tests here, and the gate installed in it as the README says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster as clusters
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.place import Place
from tests.cluster.typed import Person
from tests.compose import prepare
from tools.release import __main__ as release

IMAGE = "registry.test/extauthz"
"""Where the node has the gate's image, by the version of the chart and by another one."""
APP = "registry.test/app"
"""Of whoever is limited: the same image, as it has a Python."""
GATE = f"{IMAGE}:{release.version()}"
NEXT = "next"
"""The other version."""
NAMES = (GATE, f"{IMAGE}:{NEXT}", f"{APP}:1", f"{APP}:2")
CLEAN = """helm uninstall extauthz -n extauthz-system
kubectl -n extauthz-system delete pods --all
kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations extauthz
kubectl delete namespace shop elsewhere busy --ignore-not-found
kubectl delete wsq --all"""
"""What other tests have left, or this one where it fails."""
TRANSCRIPT = "TRANSCRIPT"
"""Names a file to which all that is typed is written."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Mark the test ``cluster``."""
    prepare.own_images(clusters.IMAGE)
    place = Place(tmp_path_factory.mktemp("cluster") / "one")
    running = clusters.up(place)
    try:
        for name in NAMES:
            running.tag_image(name)
        yield running
    finally:
        clusters.down(place)


@pytest.fixture(scope="session")
def person(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Person:
    transcript = os.environ.get(TRANSCRIPT)
    if transcript:
        Path(transcript).write_text("")
    return Person(cluster, tmp_path_factory.mktemp("person"), Path(transcript) if transcript else None)


def install_command() -> str:
    """The README's, with our registry in it, with a new ledger's hold of seconds in place of two minutes, and failing
    closed, as before a quota leaves Audit."""
    (command,) = re.findall(r"^(helm install .*?)\nkubectl", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    theirs = "registry.example.com/extauthz,webhook.failurePolicy=Ignore"
    assert theirs in command
    return str(command).replace(theirs, f"{IMAGE},settings.window-s=10,webhook.failurePolicy=Fail")


@pytest.fixture(scope="module")
def installed(person: Person) -> Iterator[Person]:
    """The README's first command, and three gates that are ready."""
    person.run(CLEAN)
    person.heading("Install")
    person.types(install_command())
    person.sees("kubectl -n extauthz-system rollout status deployment extauthz | tail -1", "successfully rolled out")
    yield person
    person.run(CLEAN)

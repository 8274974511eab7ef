"""The rights of the gate's account: the table of docs/internals/security.md, the chart and the code agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests import rendering

ROOT = Path(__file__).parents[3]
CODE = ROOT / "extauthz"
ROOMS = ("cluster", "kube", "ledger_store", "observe", "selfsigned", "servers", "sources")
"""Those that ask the API server as the gate."""
ALL = ("webhook.enabled=true", "webhook.certificates=self-signed", "api.enabled=true", "page.events=true")
OWN = ("ClusterRole/extauthz", "ClusterRole/extauthz-webhook", "Role/extauthz-webhook")


class Right(NamedTuple):
    resource: str
    """``deployments.apps``."""
    verb: str
    name: str


def rows() -> list[tuple[list[Right], list[str]]]:
    """Of the table: rights, and the files that need them."""
    text = (ROOT / "docs" / "internals" / "security.md").read_text()
    table = text[text.index("## The gate's rights") :].split("\n\n")[2]
    found = []
    for line in table.splitlines()[2:]:
        resources, verbs, files, _ = (cell.strip() for cell in line.strip("|").split("|"))
        resources, _, name = resources.partition(" named ")
        plurals = [one for one in re.findall(r"`([^`]+)`", resources) if not one.startswith("system:")]
        rights = [Right(one, verb, name.strip("`")) for one in plurals for verb in verbs.split(", ")]
        found.append((rights, re.findall(r"`([^`]+)`", files)))
    return found


@pytest.mark.helm
def test_the_table_has_the_rights_of_the_chart():
    text = rendering.helm("template", "extauthz", "charts/extauthz", "--set", ",".join(ALL))
    objects = {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(text) if one}
    chart = [
        Right(f"{resource}.{group}".rstrip("."), verb, name)
        for role in OWN
        for rule in objects[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]
    assert objects["ClusterRoleBinding/extauthz-auth-delegator"]["roleRef"]["name"] == "system:auth-delegator"
    delegated = [right for rights, _ in rows() for right in rights if "reviews." in right.resource]
    assert {right.verb for right in delegated} == {"create"}
    assert sorted(chart) == sorted(right for rights, _ in rows() for right in rights if right not in delegated)
    assert not [right for right in chart if right.resource == "secrets" and right.verb not in ("get", "update")]


def test_each_right_is_needed_by_the_code_that_its_row_names():
    for rights, files in rows():
        text = "".join((CODE / file).read_text() for file in files).lower()
        for plural in {right.resource.split(".")[0].split("/")[-1] for right in rights}:
            word = "validatingwebhookconfiguration" if plural.startswith("validating") else plural
            assert word in text, (plural, files)


def test_no_code_reads_a_kind_without_a_row():
    listed = {right.resource.split("/")[0].split(".")[0] for rights, _ in rows() for right in rights}
    known = re.compile(r'Resource\(\s*"[^"]*", "v[^"]*", "([a-z]+)"')
    for room in ROOMS:
        for file in (CODE / room).rglob("*.py"):
            for plural in known.findall(file.read_text()):
                assert plural in listed, (plural, file)

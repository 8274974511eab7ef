"""docs/openapi.yaml, held against the code that asks and the sample that answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.core.model import Unknown
from extauthz.core.quota import spec
from extauthz.core.quota.spec import LABEL, Mode, parse
from extauthz.inputs.sources.http import listed
from tests.unit.sources.test_http_quotas import ACME
from tests.unit.sources.test_http_quotas import listed as list_of

Tree = Any
DOCS = Path(__file__).parents[2] / "docs"
API = yaml.safe_load((DOCS / "openapi.yaml").read_text())
SCHEMAS = API["components"]["schemas"]
TYPES = {"object": Mapping, "array": list, "string": str, "integer": int}


def wrong(value: Tree, schema: Tree) -> str | None:
    """What is wrong with a value, by the part of OpenAPI's schemas that the file uses."""
    if "$ref" in schema:
        return wrong(value, SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "oneOf" in schema:
        fits = [one for one in schema["oneOf"] if wrong(value, one) is None]
        return None if len(fits) == 1 else f"{value!r} fits {len(fits)} of the forms"
    if value is None and schema.get("nullable"):
        return None
    if not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        return f"{value!r} is no {schema['type']}"
    if value not in schema.get("enum", [value]) or (isinstance(value, int) and value < schema.get("minimum", value)):
        return f"{value!r} is none of the values"
    if isinstance(value, list):
        return next((why for one in value if (why := wrong(one, schema["items"]))), None)
    return _wrong_fields(value, schema) if isinstance(value, Mapping) else None


def _wrong_fields(value: Mapping[str, Tree], schema: Tree) -> str | None:
    known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for field in schema.get("required", ()):
        if field not in value:
            return f"{field} is missing"
    for field, one in value.items():
        if field not in known and more is False:
            return f"{field} is not known"
        under = known.get(field, more)
        if isinstance(under, Mapping) and (why := wrong(one, under)):
            return why
    return None


def answer(path: str) -> Tree:
    return API["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]


GOOD = {
    "objects": list_of(ACME),
    "plain": {"workspaces": {"acme": {"requests.cpu": "10"}}},
    "plain, with a label": {"workspaceLabel": "tenant", "workspaces": {}},
    "everything": list_of(
        {
            "apiVersion": spec.API_VERSION,
            "kind": spec.KIND,
            "metadata": {"name": "a", "generation": 3},
            "spec": {
                "parent": "b",
                "namespaceSelector": {},
                "workloadSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                "hard": {"pods": 3},
                "mode": "Clamp",
                "onUnknown": dict.fromkeys(Unknown, "Allow"),
            },
        }
    ),
}


@pytest.mark.parametrize("tree", GOOD.values(), ids=GOOD.keys())
def test_what_the_contract_allows_the_code_takes(tree: Tree):
    assert wrong(tree, answer("/quotas")) is None
    for one in listed(tree):
        parse(one)


@pytest.mark.parametrize(
    "tree",
    [{}, {"workspaces": []}, {"workspaces": {}, "items": []}, list_of({}), {"workspaces": {}, "workspaceLabel": 1}],
    ids=str,
)
def test_what_the_contract_does_not_allow_the_code_refuses(tree: Tree):
    assert wrong(tree, answer("/quotas")) is not None
    with pytest.raises(Exception, match="its answer"):
        listed(tree)


def test_every_example_in_the_contract_is_good():
    examples = {name: schema["example"] for name, schema in SCHEMAS.items() if "example" in schema}
    assert examples.keys() == {"Workspaces"}
    assert {name: wrong(example, SCHEMAS[name]) for name, example in examples.items()} == dict.fromkeys(examples)


def test_the_examples_in_the_page_are_good():
    page = (DOCS / "http-source.md").read_text()
    shown = [json.loads(block.partition("```")[0]) for block in page.split("```json\n")[1:]]
    assert [wrong(one, answer("/quotas")) for one in shown] == [None, None]
    for one in shown:
        assert all(parse(quota).hard for quota in listed(one))


def test_the_fields_and_words_of_a_quota_are_the_codes():
    quota = SCHEMAS["WorkspaceQuota"]["properties"]["spec"]["properties"]
    assert set(quota) == set(spec._SPEC_FIELDS)
    assert quota["mode"]["enum"] == [str(mode) for mode in Mode]
    assert list(quota["onUnknown"]["properties"]) == [str(unknown) for unknown in Unknown]
    assert SCHEMAS["Workspaces"]["properties"]["workspaceLabel"]["default"] == LABEL
    assert SCHEMAS["WorkspaceQuota"]["properties"]["kind"]["enum"] == [spec.KIND]
    assert SCHEMAS["WorkspaceQuotaList"]["properties"]["apiVersion"]["enum"] == [spec.API_VERSION]

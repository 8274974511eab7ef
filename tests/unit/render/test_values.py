"""``--values FILE``: the options of every ``extauthz render`` in one file, and the schema of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "render.md"

WHAT = ("envoy", "istio", "istio-pod", "tls", "webhook")
FILE = {
    "envoy": {"profile": "scale", "gate-timeout": 7, "exempt-namespace": ["one", "two"], "requester": "u"},
    "istio": {"client": "keda-operator", "gate-plain": True, "service-ip": "10.43.0.1"},
    "istio-pod": {"client": "keda-operator", "gate-plain": True},
    "tls": {"issuer": "cert-manager", "days": 30, "name": ["10.96.0.1"], "output": "json"},
    "webhook": {"url": "https://127.0.0.1:9443", "except-namespace": ["one", "two"]},
}
WORDS = {
    "envoy": [
        "--profile=scale",
        "--gate-timeout=7",
        "--exempt-namespace=one",
        "--exempt-namespace=two",
        "--requester=u",
    ],
    "istio": ["--client=keda-operator", "--gate-plain", "--service-ip=10.43.0.1"],
    "istio-pod": ["--client=keda-operator", "--gate-plain"],
    "tls": ["--issuer=cert-manager", "--days=30", "--name=10.96.0.1", "-ojson"],
    "webhook": ["--url=https://127.0.0.1:9443", "--except-namespace=one", "--except-namespace=two"],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(FILE))
    return path


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Without the line that says what made it."""
    assert main(["render", *words]) == 0
    return re.sub(r"\A# Made by .*\n", "", capsys.readouterr().out)


def schema(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(rendered(capsys, "schema"))["properties"]


@pytest.mark.parametrize("what", WHAT)
def test_a_file_says_what_flags_say(capsys, file: Path, what: str):
    text = rendered(capsys, what, "--values", str(file))
    assert text == rendered(capsys, what, *WORDS[what])
    assert text != rendered(capsys, what)


@pytest.mark.parametrize(
    ("what", "text", "words"),
    [
        ("envoy", "{exempt-namespace: [one]}", ["--exempt-namespace=three"]),
        ("tls", "{as: deployment, name: [a.example]}", ["--as", "sidecar", "--name", "b.example"]),
        ("istio", "{service-ip: 10.43.0.1}", ["--service-ip", "10.96.0.1"]),
        ("tls", "{output: json}", ["-oyaml"]),
        ("tls", "{output: json}", ["-o", "yaml"]),
    ],
    ids=["repeated", "several", "the-default", "short", "short-apart"],
)
def test_a_flag_wins_over_the_file(capsys, tmp_path: Path, what: str, text: str, words: list[str]):
    path = tmp_path / "values.yaml"
    path.write_text(f"{what}: {text}")
    assert rendered(capsys, what, *words) == rendered(capsys, what, "--values", str(path), *words)
    assert rendered(capsys, what, *words) != rendered(capsys, what, "--values", str(path))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls: {day: 3}", "tls.day: no such option; did you mean days?"),
        ("tsl: {}", "tsl: no such section; did you mean tls?"),
        ("tls: {issuer: off}", "tls.issuer: False is no text or number; quote it, or leave"),
        ("tls: {issuer: mine}", "tls.issuer: 'mine' is none of files, cert-manager"),
        ("tls: {days: 0}", "tls.days: '0' is no number of days from 1 to 825"),
        ("tls: {name: a.example}", "tls.name: must be a list: write [one, another]"),
        ("tls: {namespace: [a]}", "tls.namespace: ['a'] is no text or number; quote it, or leave"),
        ("tls: {values: x}", "tls.values: no such option"),
        ("tls: [days]", "tls: must be a mapping of options"),
        ("- tls", "must hold a mapping; write for example `tls: {…}`"),
        ("tls: {", ":1: not YAML: did not find"),
    ],
)
def test_what_is_wrong_is_told_by_file_key_and_cure(capsys, tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "values.yaml"
    path.write_text(text)
    assert main(["render", "tls", "--values", str(path)]) == 65
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"extauthz: {path}:")
    assert complaint in told.err


def test_a_switch_is_true_or_false(capsys, tmp_path: Path):
    path = tmp_path / "values.yaml"
    path.write_text("istio: {gate-plain: certainly}")
    assert main(["render", "istio", "--values", str(path)]) == 65
    assert "istio.gate-plain: 'certainly' is neither true nor false" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(capsys, tmp_path: Path):
    assert main(["render", "tls", "--values", str(tmp_path / "none")]) == 65
    assert "none: No such file or directory" in capsys.readouterr().err


def test_options_that_contradict_each_other_are_told_from_a_file_too(capsys, tmp_path: Path):
    path = tmp_path / "values.yaml"
    path.write_text("istio: {gate-plain: true, gate-ca: /ca.crt}")
    assert main(["render", "istio", "--values", str(path)]) == 64
    assert "--gate-plain and --gate-ca exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize("what", WHAT)
def test_the_schema_has_every_flag_of_every_command_and_no_other(capsys, what: str):
    sections = schema(capsys)
    assert set(sections) == set(WHAT)
    with pytest.raises(SystemExit):
        main(["render", what, "--help"])
    usage = re.search(r"usage:.*?\n\n", capsys.readouterr().out, re.DOTALL)
    assert usage is not None
    flags = set(re.findall(r"\[--([a-z-]+)", usage.group()))
    assert set(sections[what]["properties"]) == flags - {"values"} | {"output"}
    assert sections[what]["additionalProperties"] is False


def test_the_schema_tells_kinds_and_choices(capsys):
    sections = schema(capsys)
    assert sections["envoy"]["properties"]["gate-timeout"]["type"] == "number"
    options = sections["tls"]["properties"]
    assert options["days"]["type"] == "integer"
    assert options["issuer"]["enum"] == ["files", "cert-manager"]
    assert options["name"]["type"] == "array"
    assert sections["istio"]["properties"]["gate-plain"]["type"] == "boolean"


def test_the_file_that_the_docs_show_is_taken_by_every_command(capsys, tmp_path: Path):
    (shown,) = re.findall(r"```yaml\n(# values.yaml.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "values.yaml"
    path.write_text(shown)
    for what in yaml.safe_load(shown):
        assert rendered(capsys, what, "--values", str(path)) != rendered(capsys, what)


def test_a_key_that_is_given_twice_is_refused(tmp_path, capsys):
    values = tmp_path / "values.yaml"
    values.write_text("envoy:\n  profile: scale\n  profile: writes\n")
    assert main(["render", "envoy", "--values", str(values)]) == 65
    assert ":3: 'profile' is given more than once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["render", "envoy", "--profile", "all"], "writes, autoscaler, scale"),
        (["render", "envoy", "--on-outage", "ignore"], "deny, allow"),
        (["render", "envoy", "--anonymous", "no"], "deny, ask, verify"),
        (["doctor", "--profile", "all"], "writes, autoscaler, scale"),
        (["doctor", "--on-outage", "ignore"], "deny, allow"),
    ],
)
def test_a_wrong_choice_is_told_with_what_there_is(words: list[str], choices: str, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 64
    assert f"invalid choice: '{words[-1]}' (choose from {choices})" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words", "configurations"),
    [("clamp: false", (), 1), ("clamp: true", (), 2), ("clamp: true", ("--no-clamp",), 1), ("service: a.b", (), 2)],
)
def test_what_is_on_by_default_is_turned_off_in_a_file_and_a_flag_wins(
    capsys, tmp_path: Path, content: str, words: tuple[str, ...], configurations: int
):
    values = tmp_path / "values.yaml"
    values.write_text(f"webhook: {{{content}}}")
    assert main(["render", "webhook", "--values", str(values), *words]) == 0
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == configurations

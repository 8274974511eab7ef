"""The gate's image: how large it is, as whom it runs, and that what it leaves out is not missed."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.compose import engine, prepare

pytestmark = pytest.mark.image

AT_MOST_BYTES = 160_000_000


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    prepare.own_images("extauthz")


def inspected() -> dict:
    return json.loads(engine.found().run("image", "inspect", "extauthz").stdout)[0]


def run(*words: str, entry: str = "extauthz") -> subprocess.CompletedProcess[str]:
    """As a cluster runs it: nothing is written, nothing may be gained."""
    locked = ("--rm", "--read-only", "--cap-drop=ALL", "--network=none", f"--entrypoint={entry}")
    return engine.found().run("run", *locked, "extauthz", *words, check=False)


def test_it_is_small():
    assert inspected()["Size"] <= AT_MOST_BYTES


def test_it_is_nobody_and_asks_for_nothing():
    assert inspected()["Config"]["User"] == "65532:65532"
    assert (
        run("-c", "import os; print(os.getuid(), os.access('/', os.W_OK))", entry="python3").stdout == "65532 False\n"
    )


def test_it_has_no_shell_and_no_installer():
    assert run("-c", "true", entry="sh").returncode == 127
    assert "No module named pip" in run("-m", "pip", entry="python3").stderr


@pytest.mark.parametrize(
    "words",
    [("serve", "--print-settings"), ("check", "--help"), ("doctor", "--help"), ("explain", "--help"), ("top", "--help"),
     ("render", "envoy"), ("render", "istio", "--help")],
    ids=" ".join,
)  # fmt: skip
def test_each_command_is_whole(words: tuple[str, ...]):
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_gate_starts_from_bytecode_that_the_image_has():
    cached = (
        "import extauthz.serve.service.app as app, hpack, os; "
        "print(*map(os.path.exists, (app.__cached__, hpack.__cached__)))"
    )
    assert run("-c", cached, entry="python3").stdout == "True True\n"

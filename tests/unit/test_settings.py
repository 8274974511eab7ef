"""Settings: one name in flag, environment and file, one order of precedence, and errors that name their origin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Unknown
from extauthz.inputs.kube import session
from extauthz.serve.service import certificates
from extauthz.serve.service.loading import SERVICE_LINK, load, shown
from extauthz.serve.service.numbers import Numbers
from extauthz.serve.service.setting_types import UNKNOWNS, Address, ConfigFileError, SettingsError, parse
from extauthz.serve.service.settings import Level, Settings, described, policy, variable, word
from extauthz.tools.render.options import SidecarOptions
from tools.release import drawn


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "gate.yaml"


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(config: Path) -> None:
    config.write_text("grpc: 127.0.0.1:1\nhttp: 127.0.0.1:1\nwindow-s: 1\n")
    environ = {"EXTAUTHZ_GRPC": "127.0.0.1:2", "EXTAUTHZ_HTTP": "127.0.0.1:2"}
    settings = load({"grpc": "127.0.0.1:3"}, environ, config)
    assert (settings.grpc, settings.http, settings.window_s) == ("127.0.0.1:3", "127.0.0.1:2", 1.0)


def test_an_empty_variable_counts_as_not_given() -> None:
    assert load({}, {"EXTAUTHZ_GRPC": "", "EXTAUTHZ_TLS_CERT": ""}, None) == Settings()


def test_an_empty_file_sets_nothing(config: Path) -> None:
    config.write_text("# nothing yet\n")
    assert load({}, {}, config) == Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "text", "says"),
    [
        pytest.param({"grpc": "9191"}, {}, "", "--grpc: '9191' has no port", id="flag"),
        pytest.param({}, {"EXTAUTHZ_WINDOW_S": "0"}, "", "EXTAUTHZ_WINDOW_S: must be more than 0", id="variable"),
        pytest.param({}, {}, "log-level: loud", "gate.yaml: log-level: must be one of debug,", id="file"),
        pytest.param({}, {}, "log-levl: info", "log-levl: no such setting; did you mean log-level?", id="unknown-key"),
        pytest.param({}, {}, "zzz: 1", "zzz: no such setting; `extauthz serve --help`", id="unlike-any-key"),
        pytest.param({}, {}, "- grpc", "must hold a mapping", id="no-mapping"),
        pytest.param({}, {}, "grpc: [", "gate.yaml:1: not YAML: did not", id="no-yaml"),
        pytest.param({}, {"EXTAUTHZ_GRPCC": "x"}, "", "EXTAUTHZ_GRPCC: no such setting; did", id="unknown-variable"),
        pytest.param({"tls_cert": "/nowhere"}, {}, "", "--tls-cert: no such file: /nowhere", id="missing-file"),
        pytest.param({"tls_cert": __file__}, {}, "", f"--tls-cert: no such file: {__file__[:-3]}.key", id="no-key"),
        pytest.param({"tls_client_ca": __file__}, {}, "", "tls-client-ca needs tls-cert", id="ca-alone"),
        pytest.param({"quotas": "ftp://a/b"}, {}, "", "--quotas: ftp:// cannot be asked", id="scheme"),
        pytest.param({"quotas": "https://me:pw@a/"}, {}, "", "--quotas: a: write https://host", id="user-in-url"),
        pytest.param({"quotas": "https:///q"}, {}, "", "--quotas: no host: write https://host", id="no-host"),
        pytest.param(
            {"quotas": "http://a/q", "source_token_file": __file__}, {}, "", "credentials go over https", id="plain"),
        pytest.param({}, {}, "grpc: :1\ngrpc: :2", "gate.yaml:2: 'grpc' is given more than once", id="twice"),
        pytest.param({"ledger": "kubernetes", "quotas": "q"}, {}, "", "needs quotas kubernetes", id="quotas-of-files"),
        pytest.param({"ledger": "kubernetes", "quotas": "https://a/q"}, {}, "", "or run one gate", id="quotas-of-url"),
        pytest.param({"grpc": "off"}, {}, "", "grpc off: nobody could ask this gate; set webhook", id="nobody"),
        pytest.param({"webhook_client_ca": __file__}, {}, "", "webhook-client-ca needs webhook: the", id="no-webhook"),
        pytest.param({"api": ":1"}, {}, "", "api and api-cert go together", id="api-without-certificate"),
        pytest.param({"api_client_ca": __file__}, {}, "", "api-client-ca needs api", id="authorities-without-api"),
        pytest.param({"api_audience": "x"}, {}, "", "api-audience needs api", id="audience-without-api"),
        pytest.param({"window_s": "nan"}, {}, "", "--window-s: must be more than 0", id="not-a-number"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_refused_by_the_name_it_was_given_under(flags, environ, text, says, config) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load(flags, environ, config)
    assert says in str(refused.value)
    assert isinstance(refused.value, ConfigFileError) == bool(text)


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"--config: .*absent.yaml: No such file"):
        load({}, {}, tmp_path / "absent.yaml")


def test_a_variable_may_name_the_settings_file_and_the_flag_wins(config: Path, tmp_path: Path) -> None:
    config.write_text("window-s: 7\n")
    other = tmp_path / "other.yaml"
    other.write_text("window-s: 8\n")
    environ = {"EXTAUTHZ_CONFIG": str(config)}
    assert load({}, environ, None).window_s == 7
    assert load({}, environ, other).window_s == 8
    assert load({}, {"EXTAUTHZ_CONFIG": ""}, None) == Settings()
    with pytest.raises(ConfigFileError, match=r"EXTAUTHZ_CONFIG: .*absent.yaml: No such file"):
        load({}, {"EXTAUTHZ_CONFIG": str(tmp_path / "absent.yaml")}, None)


def test_a_fault_in_the_file_that_a_variable_names_is_told_with_the_file(config: Path) -> None:
    config.write_text("log-level: loud\n")
    with pytest.raises(ConfigFileError, match=r"gate.yaml: log-level: must be one of debug, info"):
        load({}, {"EXTAUTHZ_CONFIG": str(config)}, None)


def test_a_merged_key_is_not_given_twice(config: Path) -> None:
    config.write_text("<<: {window-s: 7, grpc: ':1'}\nwindow-s: 8\n")
    assert (load({}, {}, config).window_s, load({}, {}, config).grpc) == (8, ":1")


def test_help_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """No type of Python's, no link of Markdown's."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--webhook ADDRESS " in text
    assert "typing." not in text
    assert "](" not in text
    assert "(docs/webhook.md)" in text


def test_who_reads_only_the_first_line_is_shown_no_traceback() -> None:
    command = [sys.executable, "-m", "extauthz.cli", "serve", "--print-settings"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, complained = child.communicate(timeout=60)
    assert (child.returncode, complained) == (141, b"")


def test_the_variables_that_kubernetes_adds_for_a_service_of_our_name_are_left_alone() -> None:
    links = {
        "EXTAUTHZ_SERVICE_HOST": "10.0.0.1",
        "EXTAUTHZ_SERVICE_PORT": "9191",
        "EXTAUTHZ_SERVICE_PORT_GRPC": "9191",
        "EXTAUTHZ_PORT": "tcp://10.0.0.1:9191",
        "EXTAUTHZ_PORT_9191_TCP": "tcp://10.0.0.1:9191",
        "EXTAUTHZ_PORT_9191_TCP_PROTO": "tcp",
        "EXTAUTHZ_METRICS_SERVICE_HOST": "10.0.0.2",
    }
    assert load({}, links, None) == Settings()


def test_no_setting_has_a_name_that_kubernetes_may_set() -> None:
    assert not [field for field in described() if SERVICE_LINK.fullmatch(field.upper())]


def test_every_setting_is_described_and_is_a_flag_and_a_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["serve", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for field, info in described().items():
        assert info.description
        assert f"--{word(field)}" in text
        assert variable(field) in text.replace("\n", "")


def test_print_settings_shows_what_would_be_in_force_and_can_be_the_next_file(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTAUTHZ_LOG_LEVEL", "error")
    assert main(["serve", "--grpc", "unix:/run/gate.sock", "--webhook=:1", "--print-settings"]) == 0
    config.write_text(capsys.readouterr().out)
    again = load({}, {}, config)
    assert again == Settings(grpc="unix:/run/gate.sock", webhook=":1", log_level=Level.ERROR)
    assert shown(again)["log-level"] == "error"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param([], "extauthz: ", id="nothing"),
        pytest.param(["serv"], "did you mean serve?", id="unknown-command"),
        pytest.param(["serve", "--quota", "x"], "did you mean --quotas?", id="shortened-flag"),
        pytest.param(["render", "webook"], "did you mean webhook?", id="word-of-a-command"),
        pytest.param(["explain", "exceded-quota"], "did you mean exceeded-quota?", id="code"),
        pytest.param(["explain", "json-syntax"], "The gate cannot read the request", id="code-of-a-body"),
        pytest.param(["serve", "--window-s", "abc"], "not 'abc'; write for example 135 (seconds)", id="not-a-number"),
        pytest.param(["serve", "--window-s", "-5"], "not '-5'; write for example 135 (seconds)", id="below-zero"),
        pytest.param(
            ["check", "deploy/a", "-n", "a", "--replicas", "x"], "write a whole number such as 3", id="no-count"
        ),
        pytest.param(["serve"], "--quotas is needed: kubernetes, or a file or a directory", id="no-quotas"),
        pytest.param(["serve", "--quotas", "x"], "--state is needed", id="no-state"),
        pytest.param(["serve", "--grpc", "9"], "--grpc: '9' has no port", id="bad-value"),
    ],
)
def test_wrong_usage_ends_with_one_line_and_64(words, says, capsys) -> None:
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    assert code == 64
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "quotas", "live"),
    [
        pytest.param({"quotas": "kubernetes", "state": "s"}, "kubernetes", True, id="the-word"),
        pytest.param({"quotas": "./kubernetes", "state": "s"}, Path("kubernetes"), False, id="a-file-of-that-name"),
        pytest.param({"quotas": "q", "state": "kubernetes"}, Path("q"), True, id="state-alone"),
        pytest.param({"quotas": "q", "webhook": ":1"}, Path("q"), True, id="its-certificates"),
    ],
)
def test_a_cluster_is_named_in_place_of_a_path(given, quotas, live) -> None:
    settings = load(given, {}, None)
    assert (settings.quotas, settings.live) == (quotas, live)


@pytest.mark.parametrize("url", ["https://platform.example:8443/quotas?all=1", "http://127.0.0.1:80/q"])
def test_a_url_stays_as_it_is_written_and_a_path_stays_a_path(url: str) -> None:
    assert load({"quotas": url}, {}, None).quotas == url
    assert load({"quotas": "quotas.d"}, {}, None).quotas == Path("quotas.d")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "Secret infra/extauthz-webhook"),
        ({"kubeconfig": __file__}, "Secret extauthz-system/extauthz-webhook"),
    ],
)
def test_the_secret_is_in_the_namespace_of_the_pod(given, place, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "namespace").write_text("infra")
    monkeypatch.setattr(certificates, "own_namespace", lambda: session.own_namespace(tmp_path))
    assert str(certificates.place(load(given, {}, None))) == place


def test_outside_a_pod_there_is_no_namespace(tmp_path: Path) -> None:
    assert session.own_namespace(tmp_path) is None


def test_ten_settings_stand_first_in_the_docs_and_none_stands_twice() -> None:
    assert len(drawn.MATTER) == 10
    named = [line.split("`")[1] for line in drawn.settings().splitlines() if line.startswith("- `--")]
    assert named[:10] == [f"--{word(field)}" for field in drawn.MATTER]
    assert sorted(named) == sorted(f"--{word(field)}" for field in described())


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        pytest.param("127.0.0.1:9191", Address("127.0.0.1", 9191), True, id="v4"),
        pytest.param("10.0.0.7:0", Address("10.0.0.7", 0), False, id="v4-any-port"),
        pytest.param("[::1]:9191", Address("::1", 9191), True, id="v6"),
        pytest.param("[::]:9191", Address("::", 9191), False, id="v6-all"),
        pytest.param(":9191", Address("::", 9191), False, id="all-interfaces"),
        pytest.param("localhost:1", Address("localhost", 1), True, id="localhost"),
        pytest.param("gate.example:1", Address("gate.example", 1), False, id="name"),
        pytest.param("unix:/run/gate.sock", Address("", 0, "/run/gate.sock"), True, id="unix"),
    ],
)
def test_an_address_is_read(text: str, address: Address, loopback: bool) -> None:
    assert parse(text) == address
    assert address.loopback is loopback


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("9191", "has no port"),
        ("", "has no port"),
        ("host:", "number from 0 to 65535"),
        ("host:65536", "number from 0 to 65535"),
        ("host:٣", "number from 0 to 65535"),
        ("::1:9191", "goes in brackets"),
        ("[::x]:9191", "not an IPv6 address"),
        ("unix:gate.sock", "absolute path"),
        ("unix:/" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_what_is_no_address_is_refused_with_a_cure(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9191", "[::1]:9191", "unix:/run/gate.sock"])
def test_an_address_prints_as_it_is_written(text: str) -> None:
    assert str(parse(text)) == text


API_SERVER_REQUEST_TIMEOUT_S = 60.0
"""``--request-timeout`` of kube-apiserver, by default."""


def test_an_allowed_write_has_landed_or_failed_before_w_by_the_default_timeouts():
    envoy = SidecarOptions()
    longest_s = envoy.gate_timeout_s + envoy.write_timeout_s + API_SERVER_REQUEST_TIMEOUT_S
    assert Policy().window_s >= longest_s + 5


def test_an_admitted_object_is_stored_or_not_before_its_own_shorter_window():
    by_default_s = Numbers().window_of_admitted_s
    assert by_default_s >= API_SERVER_REQUEST_TIMEOUT_S + 5
    for given, window_s in (({}, by_default_s), ({"window_s": 200.0}, 200.0), ({"window_s": 20.0}, 20.0)):
        assert policy(load(given, {}, None)).for_admitted_s == window_s


def test_what_passes_unknown_is_named_and_all_else_is_refused() -> None:
    given = load({"allow_unknown": ["stale, unsynced", "unclean-start"]}, {}, None)
    assert given.allow_unknown == ("stale", "unsynced", "unclean-start")
    assert policy(given).allows == {Unknown.STALE, Unknown.UNSYNCED}
    assert {*UNKNOWNS.values()} == {*Unknown, None}
    assert (given.on("unclean-start"), given.on("unreadable")) == ("allow", "deny")
    with pytest.raises(SettingsError, match="--allow-unknown: 'unsinced' is not one of unreadable, unknown-workload"):
        load({"allow_unknown": "unsinced"}, {}, None)


def test_the_surge_of_a_rollout_is_reserved_where_the_setting_says_so() -> None:
    assert [
        policy(load(given, {}, None)).charge_surge for given in ({}, {"charge_surge": True}, {"charge_surge": "TRUE"})
    ] == [
        False,
        True,
        True,
    ]


def test_there_are_no_more_settings_than_a_person_can_read() -> None:
    assert len(described()) <= 30

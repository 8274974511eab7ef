"""Puts settings together from flags, environment and file, and says which of them is at fault in one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from extauthz.inputs.files import text
from extauthz.serve.service.setting_types import ConfigFileError, SettingsError
from extauthz.serve.service.settings import CONFIG, ENV_PREFIX, Settings, described, variable, word

SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes puts into a pod's environment for a Service named ``extauthz`` or ``extauthz-…``, after the prefix
(k8s.io/kubernetes/pkg/kubelet/envvars). They are not ours, and no setting may have a name of this form."""


def load(flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None) -> Settings:
    """The effective settings: a flag wins over the environment, the environment over the file.

    Args:
        flags: by field name, only those that were given.
        environ: the process's environment; empty values count as not given.
        config: the YAML file of ``--config``. Without it, the one that the variable ``EXTAUTHZ_CONFIG`` names.

    Raises:
        SettingsError: in flags or environment; its subclass ConfigFileError: in the file.
    """
    origin = "--config"
    if config is None and environ.get(CONFIG):
        origin, config = CONFIG, Path(environ[CONFIG])
    from_file = {} if config is None else _read(config, origin)
    from_environ = _environment(environ)
    read: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field, given in {**from_file, **from_environ, **flags}.items():
        try:
            read[field] = _one(field, given)
        except ValueError as error:
            problems[field] = str(error)
    if problems:
        raise _explained(problems, flags, from_environ, config)
    try:
        return Settings(**read)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _one(field: str, given: object) -> Any:  # noqa: ANN401 (of the setting's type)
    info = described()[field]
    return None if given is None and info.default is None else info.kind.read(given)


def shown(settings: Settings) -> dict[str, Any]:
    """The effective settings under the names that flags and files use."""
    return {word(name): _plain(getattr(settings, name)) for name in described()}


def _plain(value: object) -> object:
    """As YAML has it."""
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | float) else str(value)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    known = {variable(field): field for field in described()}
    ours = {name: value for name, value in environ.items() if name.startswith(ENV_PREFIX) and value and name != CONFIG}
    for name in ours:
        if name not in known and not SERVICE_LINK.fullmatch(name.removeprefix(ENV_PREFIX)):
            raise SettingsError(f"{name}: no such setting{_did_you_mean(name, known)}")
    return {known[name]: value for name, value in ours.items() if name in known}


def _read(path: Path, origin: str) -> dict[str, Any]:
    try:
        tree = text.document(path.read_bytes())
    except OSError as error:
        raise ConfigFileError(f"{origin}: {path}: {error.strerror}") from None
    except text.TextError as error:
        raise ConfigFileError(f"{path}:{error.line}: {error.detail}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigFileError(f"{path}: must hold a mapping of settings; write for example `grpc: 127.0.0.1:9191`")
    fields = {word(field): field for field in described()}
    for key in tree:
        if key not in fields:
            raise ConfigFileError(f"{path}: {key}: no such setting{_did_you_mean(str(key), fields)}")
    return {fields[key]: value for key, value in tree.items()}


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; `extauthz serve --help` lists them"


def _explained(
    problems: Mapping[str, str], flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None
) -> SettingsError:
    """A line for each, under the name by which it was given."""
    kind: type[SettingsError] = SettingsError
    lines = []
    for field, what in problems.items():
        if field in flags:
            lines.append(f"--{word(field)}: {what}")
        elif field in environ:
            lines.append(f"{variable(field)}: {what}")
        else:
            kind = ConfigFileError
            lines.append(f"{config}: {word(field)}: {what}")
    return kind("\n".join(lines))

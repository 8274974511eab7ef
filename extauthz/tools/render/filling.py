"""Fills in ``templates/``: YAML as the documentation of Envoy, Kubernetes and cert-manager has it.

Each value is written as JSON, which is YAML. Comments tell why, and do not come out.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any as Tree

import jinja2
import yaml
from markupsafe import Markup


def tree(template: str, **values: object) -> dict[str, Tree]:
    """What a template comes to with these values."""
    found: dict[str, Tree] = yaml.load(text(template, **values), yaml.CSafeLoader)
    return found


def text(template: str, **values: object) -> str:
    """The same as text."""
    return TEMPLATES.get_template(template).render(values)


def is_ip(host: str) -> bool:
    """An address, and no DNS name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _written(value: object) -> Markup:
    """A value in a template: as JSON, which is YAML, and a text of Lua. What a macro has made stays as it is."""
    return value if isinstance(value, Markup) else Markup(json.dumps(value))  # noqa: S704 (JSON is escaped)


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("extauthz.tools.render"),
    autoescape=True,
    finalize=_written,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    auto_reload=False,
)
TEMPLATES.tests["name"] = lambda host: not is_ip(host)

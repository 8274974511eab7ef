"""Fills in ``templates/``: YAML as the documentation of Envoy, Kubernetes and cert-manager has it.

Each value is written as JSON, which is YAML. Comments tell why, and do not come out.
"""

from __future__ import annotations

import ipaddress
import json
from functools import cache
from typing import TYPE_CHECKING
from typing import Any as Tree

import yaml

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


def tree(template: str, **values: object) -> dict[str, Tree]:
    """What a template comes to with these values."""
    found: dict[str, Tree] = yaml.load(text(template, **values), yaml.CSafeLoader)
    return found


def text(template: str, **values: object) -> str:
    """The same as text."""
    return templates().get_template(template).render(values)


def is_ip(host: str) -> bool:
    """An address, and no DNS name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@cache
def templates() -> jinja2.Environment:
    """All, with what they may use."""
    import jinja2
    from markupsafe import Markup

    def written(value: object) -> Markup:
        """As JSON, which is YAML, and a text of Lua. What a macro has made stays as it is."""
        return value if isinstance(value, Markup) else Markup(json.dumps(value))  # noqa: S704 (JSON is escaped)

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("extauthz.tools.render"),
        autoescape=True,
        finalize=written,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    found.tests["name"] = lambda host: not is_ip(host)
    return found

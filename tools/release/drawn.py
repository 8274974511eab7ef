"""What the docs show of tables in the code, as Markdown: ``python -m tools.release.drawn`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from extauthz.core import resources
from extauthz.core.ledger.entry import TRANSITIONS, State
from extauthz.core.resources import Treatment
from extauthz.serve.service.settings import described, word
from extauthz.tell.observe import reasons
from extauthz.tell.observe.metrics import TABLE as METRICS
from tools.release import fields

MATTER: Final = (
    "quotas",
    "state",
    "ledger",
    "mode",
    "grpc",
    "http",
    "webhook",
    "tls_cert",
    "tls_client_ca",
    "window_s",
)
"""The settings that every installation should know."""

_SAID: Final = {
    Treatment.GATED: "a write that raises it is refused where there is no room. What raises it:",
    Treatment.OBSERVED: "what is there counts. Some of its growth is seen only afterwards, and then acts like a cut:",
    Treatment.NOT_COUNTED: "a quota with this key is refused, and the message says which key to use. Why:",
}


def transitions() -> str:
    """The life of a pending write as a Mermaid state diagram: the rows that change something."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for state, row in TRANSITIONS.items():
        for event, to in row.items():
            if to is not state:
                arrows.setdefault((state, to), []).append(event.value)
    lines = [f"    {state} --> {to}: {', '.join(events)}" for (state, to), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> open", *lines, "    ended --> [*]"])


def keys() -> str:
    """A list of quota keys for each treatment."""
    lines = []
    for each, said in _SAID.items():
        rows = [f"- {family.title}: {family.raised_by}" for family in resources.TABLE if family.treatment is each]
        lines += [f"**{each.capitalize()}**: {said}", "", *rows, ""]
    return "\n".join(lines).strip()


def decisions() -> str:
    """Reasons of decisions."""
    lines = []
    for one in reasons.TABLE:
        code = f"`{one.code}`" if one is not reasons.UNREADABLE else "any other"
        cure = f" **{one.who[0].upper()}{one.who[1:]}:** {one.cure}" if one.who and one.cure else ""
        lines.append(f"- {code} ({one.verdict}): {one.meaning}{cure}")
    return "\n".join(lines)


def metrics() -> str:
    """Families of metrics."""
    lines = []
    for family in METRICS:
        labels = f"{{{','.join(family.labels)}}}" if family.labels else ""
        lines.append(f"- `{family.name}{labels}` ({family.kind}, {family.unit}): {family.help}")
    return "\n".join(lines) + "\n"


def settings() -> str:
    """The settings that matter most, and the rest."""
    rest = [field for field in described() if field not in MATTER]
    return f"### The ten that matter\n\n{_settings(MATTER)}\n### All others\n\n{_settings(rest)}"


def _settings(fields: Iterable[str]) -> str:
    lines, known = [], described()
    for field in fields:
        info = known[field]
        default = "" if info.default in (None, "", ()) else f" (`{info.default}`)"
        lines.append(f"- `--{word(field)}`{default}: {info.description}")
    return "\n".join(lines) + "\n"


DRAWN: Final[Mapping[str, Callable[[], str]]] = {
    "docs/internals/ledger.md": transitions,
    "docs/counting.md": keys,
    "docs/reasons.md": decisions,
    "docs/metrics.md": metrics,
    "docs/settings.md": settings,
    "docs/quota.md": fields.markdown,
}
"""By the page that has it."""

if __name__ == "__main__":
    sys.stdout.write("\n\n".join(f"{page}\n\n{drawn()}" for page, drawn in DRAWN.items()) + "\n")

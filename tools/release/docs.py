"""For MkDocs: links that lead out of docs/ become the path in the repository, since the site has only docs/.

That such a file is there is held by ``tests/unit/test_docs.py``.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^]]+)\]\((?:\.\./([^)#\s]+)|(openapi\.yaml))(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401 (as MkDocs calls it)
    """The text of a page before it is rendered."""
    return OUTSIDE.sub(_named, markdown)


def _named(link: re.Match[str]) -> str:
    text, path = link[1], link[2] or f"docs/{link[3]}"
    return text if text.strip("`") == path else f"{text} (`{path}`)"

"""For MkDocs: links that lead out of docs/ become the path in the repository, since the site has only docs/.

That such a file is there is held by ``tests/unit/test_docs.py``.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^]]+)\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
UNSHOWN = ("openapi.yaml",)
"""What is in docs/ and no page."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:  # noqa: ANN401 (as MkDocs calls it)
    """The text of a page before it is rendered."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(link: re.Match[str]) -> str:
        text, path = link[1], posixpath.normpath(posixpath.join("docs", folder, link[2]))
        if path.startswith("docs/") and path.removeprefix("docs/") not in UNSHOWN:
            return link[0]
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return LINK.sub(shown, markdown)

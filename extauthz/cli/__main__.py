"""``python -m extauthz.cli``: the command without an installed script."""

from __future__ import annotations

import sys

from extauthz.cli import main

sys.exit(main())

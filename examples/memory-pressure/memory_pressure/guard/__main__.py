"""``python -m memory_pressure.guard``: the command ``extauthz-guard``."""

import sys

from .command import main

sys.exit(main())

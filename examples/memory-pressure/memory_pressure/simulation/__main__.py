"""``python -m memory_pressure.simulation``: the command ``extauthz-simulate-memory``."""

import sys

from .command import main

if __name__ == "__main__":  # the processes that it starts import it anew
    sys.exit(main())

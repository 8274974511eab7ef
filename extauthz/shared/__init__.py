"""One ledger for several gates: an object per root quota, written by compare-and-swap (DESIGN §6.8 to 6.11)."""

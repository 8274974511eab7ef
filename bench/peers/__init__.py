"""``python -m bench.peers``: the gate beside what others would use in its place, in one run (peers.md)."""

"""Tells whether the gate is really in the way: pure functions from what was seen to rows; the looking at the edge."""

"""A seeded world: the real gates on a virtual clock, an API server, faults, and rules (docs/simulate.md)."""

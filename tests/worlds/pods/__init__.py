"""Worlds with pods: controllers make them, each in its own time, and a judge counts them.

The worlds beside these have no pods, and know what a gate ought to charge. Here nobody knows that. What exists is
counted: each pod by what it says that it needs. That must be within the limits, but for the cuts of docs/guarantee.md.
In: a seed, how many steps, and what may go wrong. Out: the first rule that is broken, and all that happened.
"""

"""Runs real gates in simulated worlds on a virtual clock, and checks the rules after every step (simulate.md).

In: a seed, the faults that may happen, and how many steps. Out: what happened, and each rule that was broken.
"""

"""Nodes that run out of memory: a policy for extauthz that holds growth, a guard that pauses pods, and a simulation.

``marks`` is the arithmetic that all three share, and pure. ``policy`` decides and ``looking`` reads the nodes for it.
"""

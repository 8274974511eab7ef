"""Applies each kind of patch to a tree, as the API server does it.

In: a tree and a patch, neither of which is changed. Out: the new tree, or an error with a stable code.
"""

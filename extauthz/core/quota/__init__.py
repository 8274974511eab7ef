"""WorkspaceQuota objects: read, checked, and made a tree that knows which quotas cover a workload.

In: objects as trees. Out: a ``QuotaTree``, and problems with the place and the cure. Knows nothing of usage.
"""

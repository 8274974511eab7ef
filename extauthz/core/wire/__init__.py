"""Bytes of a body or a path → plain trees, read as Go reads them: JSON, protobuf, percent escapes.

In: bytes from anybody, and a budget. Out: a tree, or a ``BodyError`` with a stable code. Knows nothing of workloads.
"""

"""Checks whether the gate is really asked, and says how to cure what is wrong.

In: Envoy's configuration, the cluster, and answers to dry runs on the client's path. Out: one row for each check. The
checks are pure functions; only ``examine`` and what it calls look at the outside.
"""

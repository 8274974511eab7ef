"""What people and programs see of the gate: log, metrics, status of quotas, Kubernetes events.

In: decisions, usage, and what goes wrong. Out: log lines, series of /metrics, statuses and events. It decides nothing.
"""

"""What each workload uses and may still come to use, added up for every quota that covers it.

In: observed workloads, allowed writes, and what became of them. Out: proposals (fits, or which quota lacks how much), usage.
"""

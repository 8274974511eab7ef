"""What each workload uses and may still come to use, added up for every quota that covers it.

In: observed workloads, allowed writes, what became of them. Out: proposals (fits, or which quota lacks what), usage.
"""

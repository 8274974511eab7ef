"""What the cluster runs, from a file or from the Kubernetes API, kept current in the gate.

In: lists, watch events, consistent reads, or a state file. Out: observed workloads, namespaces, pods, claims and
prices, handed to the gate; and a report of each object that cannot be read.
"""

"""What Knative's own autoscaler (class ``kpa``) does with a PodAutoscaler, from what the cluster tells about it.

Its metrics and its memory (panic mode, scale-down-delay) are in no object. Values are given from outside; what the
memory may hold makes a range, as it does for HPAs.
"""

"""What Knative's own autoscaler (class ``kpa``) does with a PodAutoscaler, from what the cluster tells about it.

In: a PodAutoscaler, its revision and the autoscaler's ConfigMap, as ``kubectl`` prints them. Out: an answer with its
steps. The autoscaler's metrics and its memory (panic mode, scale-down-delay) are in no object. So values are given from
outside, and what the memory may hold makes a range, as it does for HPAs.
"""

"""What Knative's own autoscaler (class ``kpa``) does with a PodAutoscaler.

In: a PodAutoscaler with what it scales, pods, events and config maps, as ``kubectl`` prints them; and values of its
metric, if somebody gives them: they are in no object. Out: an answer with its steps. What only the autoscaler remembers
(panic mode, scale-down-delay) makes a range, as it does for HPAs.
"""

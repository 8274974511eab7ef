"""``extauthz-guard``: pauses pods on nodes that run out of memory, by lowering their CPU limits (guard.md).

``pods`` and ``rounds`` are pure: what may be lowered, and who is next. ``limits`` writes to the API server, and
``controller`` is the loop. What was changed is written on the pod itself before it is changed, so it can always be
restored. In: nodes, pods and their metrics from the API server, and marks. Out: two writes a pod, and a line for each.
"""

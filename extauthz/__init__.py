"""A quota gate between Kubernetes autoscalers and the API server. Start with ARCHITECTURE.md.

In: the writes that Envoy asks about, quotas, and what the cluster runs. Out: allow or refuse, with a reason; status,
events, metrics and a log.
"""

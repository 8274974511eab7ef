"""Stand-ins for tests, ours and our users': an API server, a kubelet, an Envoy client, and builders of objects.

In: what a test wants to exist. Out: servers that answer like the real ones, and objects. The product imports nothing
from here.
"""

"""Stand-ins for tests: a kubelet, a metrics API, what docker-compose.yml runs beside it.

In: what a test wants to exist. Out: servers that answer like the real ones, and objects. The product imports nothing
from here.
"""

"""What docker-compose.yml runs beside the real parts (examples/compose): ``python -m extauthz.testing.compose``.

In: the name of a part, and a shared folder. Out: keys, stand-ins for kubelet and metrics-server, and the show.
"""

"""What the gate is given: quotas (``sources``), what the cluster runs (``cluster``), what became of allowed writes
(``settlement``), policies from outside (``policies``); and how these are reached (``kube``, ``files``).
"""

"""Commands beside the gate: configuration of Envoy and Istio (``render``), whether the gate is really asked
(``doctor``), and what other quotas would have refused (``replay``).
"""

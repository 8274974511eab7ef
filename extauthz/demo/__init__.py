"""The demo: recorded autoscalers through a real Envoy and the gate (``extauthz demo``).

In: recorded requests. Out: a table of what each asked for, what was decided, and what the API server then has.
"""

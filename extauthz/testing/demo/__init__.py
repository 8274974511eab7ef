"""The demo (``python -m extauthz.testing.demo``): recorded autoscalers through a real Envoy and the gate."""

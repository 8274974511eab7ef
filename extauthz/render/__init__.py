"""Configuration for Envoy, Istio and Kubernetes, made by pure functions.

In: options. Out: typed configuration as YAML text; the same options make the same text. It asks nobody and changes
nothing.
"""

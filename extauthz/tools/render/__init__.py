"""Configuration for Envoy and Istio, and the certificates of both, made by pure functions.

In: options. Out: typed configuration as YAML text; the same options make the same text. It asks nobody and changes
nothing.
"""

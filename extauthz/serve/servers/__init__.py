"""Servers translate a protocol for the decision and have no rules of their own: ext_authz, Envoy's access log, HTTP.

In: bytes of gRPC and HTTP requests. Out: a ``Request`` or an event for the gate; its decision as bytes of the answer.
"""

"""The Kubernetes API as the other rooms see it: calls and watches in raw JSON, lists kept current.

The only room that imports the official client, and of that only its asyncio flavour's configuration, TLS and transport.
"""

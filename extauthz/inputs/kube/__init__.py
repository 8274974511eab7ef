"""The Kubernetes API as the other rooms see it: calls and watches in raw JSON, and lists that are kept current.

In: a kubeconfig or the pod's service account. Out: objects as plain trees, watch events, and typed errors. Only this
room imports the official client, and only its configuration, TLS and transport for asyncio.
"""

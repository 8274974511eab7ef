"""Where quotas come from: files, the Kubernetes API, or a platform's own service over HTTP.

In: files, watches or HTTP answers. Out: a ``QuotaTree``, and problems with place and cure.
"""

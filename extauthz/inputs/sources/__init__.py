"""Where quotas and limits on replicas come from: files, the Kubernetes API, or a platform's own service over HTTP.

In: files, watches or HTTP answers. Out: a ``QuotaTree``, answers about replicas, and problems with place and cure.
"""

"""Kubernetes objects as trees → what the product keeps of them: replicas, template, labels, owner.

In: an object as the API server shows it. Out: a workload and what is observed of it, or an ``ObjectError`` with the field.
"""

"""Kubernetes objects as trees → what the product keeps of them: replicas, template, labels, owner.

In: an object as the API server shows it. Out: what is observed of the workload, or an ``ObjectError`` with the field.
"""

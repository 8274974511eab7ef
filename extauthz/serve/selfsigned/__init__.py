"""The webhook's certificate, made and renewed by the gates themselves.

In: one Secret, and the webhook configurations, which say by which names API servers call. Out: a certificate for the
listener, and the ``caBundle`` of the configurations. ``issuing`` makes certificates, ``renewal`` says when, ``keeper``
does it. Several gates agree by the version of the Secret.
"""

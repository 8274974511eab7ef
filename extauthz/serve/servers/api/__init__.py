"""The HTTP API for a platform's backend and for ``extauthz top`` and ``check``: who uses what, and what more fits.

In: GET and POST under ``/api/v1``. Out: JSON, and ``application/problem+json`` (RFC 9457) where something is wrong.
It changes and reserves nothing. This host may ask; others as the API server judges them (``people``).
"""

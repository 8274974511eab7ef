"""Brings notices to receivers over HTTP: what a message says and how it is signed, queued, sent, and sent again.

In: notices, and the receivers of the configuration. Out: POST requests, and what became of each notice. It knows
nothing of decisions and quotas; ``observe/notices.py`` says when there is something to tell.
"""

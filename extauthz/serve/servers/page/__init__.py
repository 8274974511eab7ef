"""The page: who uses what, who is refused and why, in a browser.

In: GET of ``/``, a quota, a workload, and their streams. Out: HTML from templates, made of the API's own answers: so
nobody sees more here than there. Without JavaScript it is complete; with it, it is also live (``live``).
"""

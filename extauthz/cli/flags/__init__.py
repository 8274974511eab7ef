"""The flags of each command: what a page of help needs, and nothing that only running the command does.

Each has ``add_NAME(commands)``. The module ``NAME`` in ``extauthz.cli`` has ``run(arguments) -> exit code``.

In: a parser. Out: its flags; arguments of the right types.
"""

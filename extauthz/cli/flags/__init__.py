"""The flags of each command, a module each: what a page of help needs, and nothing that only running the command does.

Each has ``add_parser(commands)``. The module of the same name in ``extauthz.cli`` has ``run(arguments) -> exit code``.

In: a parser. Out: its flags; arguments of the right types.
"""

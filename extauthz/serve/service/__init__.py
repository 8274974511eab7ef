"""Puts one gate together and runs it as a process: settings, assembly, start, stop.

In: settings from flags, environment and file; a clock; a connection. Out: a running gate. No other room connects rooms.
"""

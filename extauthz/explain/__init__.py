"""Why an autoscaler does what it does: its own arithmetic, step by step, from the objects that it reads.

In: objects as ``kubectl`` prints them, and the time they are of. Out: an answer with its steps, each *certain* (it
follows from the objects) or *likely* (it needs what only the controller remembers). Nothing here reads or writes.
"""

"""Looks for bodies that cost much: time and memory of ``read`` and ``resolve`` per byte sent (``make fuzz``)."""

"""Looks for bodies that cost much: time and memory of reading per byte sent (``make fuzz``)."""

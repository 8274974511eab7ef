"""What became of an allowed write: from Envoy's answer, through a consistent read, to the end of the pending write.

In: what an access log entry says, and time. Out: pending writes that end, and the room that they give back. Who reads
the cluster is injected.
"""

"""A gRPC server: HTTP/2 as far as gRPC needs it, as a pure state machine, and a thin shell of asyncio around it.

In: bytes of connections; what is done with each method. Out: its calls' messages; bytes of the answers.

It knows nothing of quotas and of Envoy. ``connection.Connection`` takes bytes and gives events, and takes answers and
gives bytes; it does no I/O and reads no clock. ``serving.Server`` listens, and hands the calls to ``methods``.

    frames   how frames are spelled (RFC 9113 §4, §6, §7)
    heads    header blocks: decoded by the package hpack, checked, and read as the head of a call (RFC 9113 §8, gRPC)
    status   the status of a call, as gRPC spells it
    bounds   what a peer may cost, and who has the same bound
    streams  one stream: its state, its windows, its messages
    connection   all streams of one connection
    methods  what a server does with a call
    link     one connection in asyncio
    serving  the listener, and the graceful end

References: RFC 9113 (HTTP/2), RFC 7541 (HPACK), and gRPC over HTTP/2
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""

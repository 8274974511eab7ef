"""A gRPC server: HTTP/2 as far as gRPC needs it, as a pure state machine, and a thin shell of asyncio around it.

In: bytes of connections; what is done with each method. Out: its calls' messages; bytes of the answers.

It knows nothing of quotas and of Envoy. ``connection.Connection`` takes bytes and gives events, and takes answers and
gives bytes; it does no I/O and reads no clock. ``link`` listens, and hands the calls to methods.

    frames      how frames are spelled (RFC 9113 §4, §6, §7)
    heads       header blocks: decoded by the package hpack, checked, and read as the head of a call (RFC 9113 §8, gRPC)
    streams     one stream: its state, its windows, its messages
    connection  all streams of one connection
    link        one connection in asyncio, and the server that listens
    accepting   accepts the connections of all servers, and bounds them

References: RFC 9113 (HTTP/2), RFC 7541 (HPACK), and gRPC over HTTP/2
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""

"""The running gate: its assembly (``service``), what is asked (``servers``) over gRPC (``rpc``) and HTTP, the ledger
that several gates share (``ledger_store``), and the certificates that it makes itself (``selfsigned``).
"""

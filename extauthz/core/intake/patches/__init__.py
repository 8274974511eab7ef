"""How each kind of patch turns one tree into another, as the API server does it. Trees given are never changed."""

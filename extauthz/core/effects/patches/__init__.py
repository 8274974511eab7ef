"""How each kind of patch turns one tree into another, as the API server does it. Patches are never changed."""

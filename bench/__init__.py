"""What the gate costs, measured against floors in the same run: ``python -m bench``."""

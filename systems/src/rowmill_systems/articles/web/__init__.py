"""The web of articles."""

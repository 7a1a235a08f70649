"""Find passages by meaning and by words."""

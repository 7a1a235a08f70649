"""What systems share. Each part can be used by itself and imports nothing of a system."""

"""A local server with feeds of all kinds."""

"""Properties of things: which there are by type, when two values agree, and how those of several sources are merged."""

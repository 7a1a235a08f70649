"""Properties of things: the catalogue, when two values agree, and how values of several sources are merged."""

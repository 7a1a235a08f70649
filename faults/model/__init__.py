"""The lease protocol as a model, small enough to check every interleaving of a few workers and rows."""

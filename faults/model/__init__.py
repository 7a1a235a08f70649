"""The lease protocol as a machine, so small that every interleaving of a few workers and rows is looked at."""

"""The embedded knowledge base: a file of things with names, types and properties, and its search."""

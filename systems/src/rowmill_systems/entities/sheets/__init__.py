"""Tables of entities in files, as people have them: read, and written again with what is known."""

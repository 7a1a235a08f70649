"""Read tables of entities in files, and write them with the results."""

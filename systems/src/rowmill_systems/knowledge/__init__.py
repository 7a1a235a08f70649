"""Knowledge bases: documents that stay consistent across a database, an object store and a vector store."""

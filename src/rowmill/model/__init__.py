"""Nouns and pure decisions. Nothing here talks to a database, a clock or a socket."""

"""The nouns of the engine and its pure decisions. No module here talks to a database, a clock or a socket."""

"""What the systems have in common: revisions of their tables, a server, answers of other servers."""

"""Demo of document intake: upload papers over HTTP, read them, kill a worker, decide on suggestions."""

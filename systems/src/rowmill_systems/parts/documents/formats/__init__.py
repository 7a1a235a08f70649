"""One module per kind of file. Each turns bytes into pages and facts."""

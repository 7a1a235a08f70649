"""One module for each kind of file: bytes in, pages and facts out."""

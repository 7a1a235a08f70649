"""Applications on Rowmill, and the parts that they share. They use only Rowmill's public API."""

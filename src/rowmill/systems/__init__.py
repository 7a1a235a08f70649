"""Systems that stand on Rowmill, and use of it only what everybody can."""

"""Things to try Rowmill's systems with. None of it is in the wheel."""

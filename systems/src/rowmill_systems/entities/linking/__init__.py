"""Who is meant: names compared, candidates scored, one of them chosen, or nobody."""

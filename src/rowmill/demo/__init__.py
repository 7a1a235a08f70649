"""A run that shows what holds: rows, workers that die and freeze, and a proof at the end that adds up."""

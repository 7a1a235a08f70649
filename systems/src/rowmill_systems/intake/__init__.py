"""Document intake: files are read in the background, fields are suggested with evidence, and people decide."""

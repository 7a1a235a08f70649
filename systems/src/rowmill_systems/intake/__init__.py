"""Document intake: files are read in the background, fields are suggested with evidence, a person decides."""

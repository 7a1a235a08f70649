"""Find the fields of a catalogue in pages of text, each with its evidence."""

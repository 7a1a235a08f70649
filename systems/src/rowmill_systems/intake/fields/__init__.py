"""From pages of text to fields of a catalogue, each with its evidence."""

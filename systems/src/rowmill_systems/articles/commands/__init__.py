"""The commands of articles."""

"""Finding the topics of articles."""

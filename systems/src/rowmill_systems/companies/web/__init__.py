"""Companies over HTTP: an API, and pages for people."""

"""Intake over HTTP: an API, and pages to upload, watch and review."""
